"""Benchmarks make nothing of a run that was interrupted, or lacks a framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import overhead, record_noise, whole_run
from benchmarks.executors import runs
from synthbench.errors import FrameworkMissingError
from synthbench.run.runner import Summary
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import load_suite

PLAN = make_plan(load_suite("smoke"), "cpu")
CALLS: dict[str, Callable[[Path], Any]] = {
    "record_noise": record_noise.main,
    "executors": lambda file: runs.run_through(PLAN, file.parent / "runs", "local"),
    "overhead": lambda _: overhead.main(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"interrupted": True}, KeyboardInterrupt),
        ({"missing": {"torch": "torch is not installed"}}, FrameworkMissingError),
    ],
    ids=["interrupted", "missing"],
)
def test_a_part_of_a_run_is_not_taken_for_the_whole(
    how: dict[str, Any],
    error: type[BaseException],
    call: Callable[[Path], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_plan(plan: Plan, run_dir: Path, **options: Any) -> Summary:
        return Summary(run_dir, plan.device, **how)

    monkeypatch.setattr(whole_run, "run_plan", run_plan)
    monkeypatch.setattr(sys, "argv", ["overhead"])
    file = tmp_path / "step_times.json"
    file.write_text("as it was")
    with pytest.raises(error):
        call(file)
    assert file.read_text() == "as it was"


def test_a_framework_without_a_cell_that_is_ok_is_not_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overhead, "run_whole", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["overhead"])
    assert overhead.main() == 1
    assert "torch: no cell of suite smoke is ok" in capsys.readouterr().out
