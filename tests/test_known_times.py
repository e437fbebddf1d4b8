"""Steps that take a time known beforehand, on the real clock, in both frameworks."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from synthbench.backends.base import BACKENDS, Backend, Batch, Setting
from synthbench.measure.ceiling import smallest_step_seconds
from synthbench.measure.timing import time_steps
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.record import Record
from synthbench.run.extensions import load_plugin
from synthbench.run.runner import run_plan
from synthbench.store import read_records
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from tests.plugin_isolation import isolated_plugins
from tests.plugins.faulty import Products

PLUGIN = "tests.plugins.faulty"
SECONDS = 0.2

SUITE = f"""
axes: {{variant: ["sleeper(seconds={SECONDS})"], mode: [forward], seq_len: [8]}}
model: {{d_model: 8, heads: 2}}
measure: {{min_samples: 10, min_seconds: 0.1, max_seconds: 6, precision: 0.01, ceiling: false,
           timeout_seconds: 60}}
"""


@pytest.fixture(scope="module")
def slept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Record]]:
    """The record of each framework."""
    with isolated_plugins():
        load_plugin(PLUGIN)
        run_dir = tmp_path_factory.mktemp("runs") / "slept"
        plan = make_plan(parse_suite(SUITE, name="mine", source="mine.yaml"), "cpu")
        run_plan(plan, run_dir, plugins=[PLUGIN])
        yield {record.cell.framework: record for record in read_records(run_dir)}


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_known_sleep_is_the_median_within_two_percent(
    slept: dict[str, Record], framework: str
) -> None:
    record = slept[framework]
    assert record.outcome == "ok", record.reason
    timing = record.measurements.timing
    assert timing is not None
    assert min(timing.samples) >= SECONDS
    assert statistics.median(timing.samples) == pytest.approx(SECONDS, rel=0.02)
    assert timing.first_step_seconds >= SECONDS
    assert timing.precision_reached is not None
    assert timing.precision_reached <= 0.01
    assert timing.dispatch_seconds is not None
    assert 0 < timing.dispatch_seconds < SECONDS
    assert timing.clock == "perf_counter, waited"


def test_a_step_that_returns_before_its_work_is_done_is_waited_for() -> None:
    backend = cast(Backend, importlib.import_module(BACKENDS["jax"]))
    size = 256
    model = Model.of("mixer", Products(times=100), Sizes.of(d_model=size, heads=2, max_len=size))
    batch = Batch(np.full((4, size, size), 1 / size, np.float32), np.zeros((4, size), np.int64))
    step = backend.build(model, {}, Setting(), "forward", batch)
    step.compile()
    step.wait(step())
    begin = time.perf_counter()
    produced = step()
    returned = time.perf_counter() - begin
    np.asarray(produced)  # its numbers cannot be had before they are there
    whole = time.perf_counter() - begin
    assert returned < whole / 4, "this step is to return before its work is done"
    found = time_steps(step, step.wait, min_samples=5, min_seconds=0.1, max_seconds=4)
    assert min(found.samples) > 2 * returned
    assert statistics.median(found.samples) > whole / 2
    # 400 products of 256 x 256 matrices: no device known makes them in the time of a dispatch
    assert min(found.samples) > smallest_step_seconds(backend, "cpu")
