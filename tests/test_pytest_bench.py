"""What the cells of a session of pytest share: the locks of their devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.pytest_plugin.measuring import Bench
from synthbench.run.cell_runner import CellRunner
from synthbench.run.job import Reply
from synthbench.run.progress import Silent
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite

SUITE = """
axes: {variant: [V, R], framework: [torch], mode: [train], seq_len: [8], batch: [2]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {ceiling: false, threads: 1}
"""
PLAN = make_plan(parse_suite(SUITE, name="mine", source="mine.yaml"), "cpu")


def test_a_cell_of_several_devices_locks_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[int] = []

    def lock(devices: int) -> Any:
        @contextmanager
        def held() -> Iterator[None]:
            locked.append(devices)
            yield

        return SimpleNamespace(held=held)

    runner: Any = CellRunner(PLAN.settings.measure, "cpu", [], Silent())
    runner.hosts["torch"] = None
    runner.lock = lock(1)
    runner.locks = {1: runner.lock, 2: lock(2)}
    monkeypatch.setattr(runner, "reply_for", lambda cell: Reply("oom"))
    bench = Bench(PLAN, [], [])
    bench.runner = runner
    for devices in (1, 2):
        bench.measure(PLAN.cells[0].changed(devices=devices))
    assert locked == [1, 2]
