"""What the cells of a session of pytest share: the locks of their devices, and their kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.kernel import Kernel
from synthbench.pytest_plugin.measuring import Bench
from synthbench.run.cell_runner import CellRunner
from synthbench.run.job import Reply
from synthbench.run.progress import Silent
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import parse_suite
from tests.kernel_choices import FAST
from tests.test_kernel_search import FakeHost

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
    monkeypatch.setattr(runner, "reply_for", lambda cell, number: Reply("oom"))
    bench = Bench(PLAN, [], [])
    bench.runner = runner
    for devices in (1, 2):
        bench.measure(PLAN.cells[0].changed(devices=devices))
    assert locked == [1, 2]


def test_kernels_are_chosen_as_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    host: Any = FakeHost()

    def start(self: CellRunner, frameworks: Iterable[str]) -> None:
        self.hosts["torch"] = host

    monkeypatch.setattr(CellRunner, "start", start)

    def chosen(*, timed: bool) -> dict[str, Kernel]:
        bench = Bench(PLAN, [], [])
        bench.start(PLAN.cells, timed=timed)
        assert bench.runner is not None
        return {choice.cell.variant: choice.chosen for choice in bench.runner.choices}

    assert chosen(timed=False) == {} and host.raced == []
    assert chosen(timed=True) == {"V": FAST, "R": FAST}
    assert sorted(host.raced) == [("R", 8), ("V", 8)]
    assert chosen(timed=True) == {"V": FAST, "R": FAST}  # in the next session, as in the first one
    assert len(host.raced) == 2
