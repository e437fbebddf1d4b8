"""Micro-benchmarks of every mixer in both frameworks, to compare two commits.

    make microbench

One forward and one train step per mixer at a small size, timed by pytest-benchmark in one process:
a quick check whether a commit made a mixer slower. For numbers to publish, use a suite.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from synthbench.backends.base import BACKENDS, Setting
from synthbench.measure.inputs import random_batch
from synthbench.mixers.catalog import SHOWCASE
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values

BATCH, LENGTH = 2, 64
SIZES = Sizes.of(d_model=64, heads=4, max_len=LENGTH)


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("variant", SHOWCASE)
@pytest.mark.parametrize("framework", BACKENDS)
def test_step(benchmark: Any, framework: str, variant: str, mode: str) -> None:
    """Time a step until its result is available."""
    model = Model.of("mixer", parse(variant), SIZES)
    setting = Setting(compile="eager" if framework == "torch" else "compiled")
    backend = importlib.import_module(BACKENDS[framework])
    start, batch = start_values(model.parameters()), random_batch(model, BATCH, LENGTH)
    step = backend.build(model, start, setting, mode, batch)
    step.compile()
    benchmark.group = f"{framework} {mode}"
    benchmark(lambda: step.wait(step()))
