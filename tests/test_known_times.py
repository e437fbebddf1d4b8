"""Steps whose time is known beforehand, on a clock of the test, in both frameworks."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from synthbench.backends.base import BACKENDS, Backend, Batch, Setting, Step
from synthbench.measure.timing import time_steps, timed
from synthbench.mixers.base import Mixer
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from tests.plugins.faulty import Faulty, Products

SECONDS = 0.25  # of each step, on the test's clock; an exact binary number


class Clock:
    """Stands still, except where the mixer turns it."""

    now = 0.0
    turns = 0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@dataclass(frozen=True)
class Turner(Faulty):
    """Each forward pass takes SECONDS; in jax, in a callback of the program."""

    name: ClassVar[str] = "turner"

    def deed(self) -> None:
        CLOCK.turns += 1
        CLOCK.now += SECONDS


def built(framework: str, mixer: Mixer, size: int, batch: int = 1) -> Step:
    backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
    model = Model.of("mixer", mixer, Sizes.of(d_model=size, heads=2, max_len=size))
    inputs = np.full((batch, size, size), 1 / size, np.float32)
    setting = Setting(compile="eager" if framework == "torch" else "compiled")
    step = backend.build(
        model, {}, setting, "forward", Batch(inputs, np.zeros((batch, size), np.int64))
    )
    step.compile()
    return step


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_known_time_is_every_sample(framework: str) -> None:
    step = built(framework, Turner(), 8)
    CLOCK.turns, CLOCK.now = 0, 0.0
    assert timed(step, step.wait, CLOCK) == SECONDS
    found = time_steps(
        step, step.wait, min_samples=10, min_seconds=1.0, max_seconds=60.0, precision=0.01,
        before=[SECONDS], clock=CLOCK,
    )  # fmt: skip
    assert found.samples == [SECONDS] * 10
    assert (found.warmup_steps, found.precision, found.stable) == (4, 0.0, True)
    assert CLOCK.turns == 1 + (found.warmup_steps - 1) + 10


def test_a_step_that_returns_before_its_work_is_done_is_waited_for() -> None:
    """Each step makes 400 products of 256 x 256 matrices; its result is ready after the wait."""
    step = built("jax", Products(times=100), 256, batch=4)
    for _ in range(5):
        produced: Any = step()
        step.wait(produced)
        assert produced.is_ready()
