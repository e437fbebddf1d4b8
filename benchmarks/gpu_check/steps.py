"""The steps in their order, each with a time limit; what matters most comes first."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.gpu_check import (
    ceilings,
    graphs,
    jax_attention,
    machine,
    parity,
    runs,
    torch_attention,
)
from benchmarks.gpu_check.finding import Step


@dataclass(frozen=True)
class Timed:
    """A step, and the seconds after which it is ended."""

    run: Step
    limit: float


STEPS = {
    "machine": Timed(machine.run, 60),
    "torch_attention": Timed(torch_attention.run, 60),
    "jax_attention": Timed(jax_attention.run, 60),
    "torch_parity": Timed(parity.run_torch, 90),
    "jax_parity": Timed(parity.run_jax, 170),
    "ceilings": Timed(ceilings.run, 60),
    "graphs": Timed(graphs.run, 30),
    "cells": Timed(runs.cells, 150),
    "memory": Timed(runs.memory, 120),
    "ends": Timed(runs.ends, 90),
}
