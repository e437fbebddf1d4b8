"""Parity checks that passed are kept for later runs, as long as nothing that decides changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthbench.measure import own_length
from synthbench.measure.environment import read_environment
from synthbench.measure.parity_cache import ParityCache, parity_file
from synthbench.record import OwnLength, Parity
from synthbench.run.executors import one_place
from synthbench.run.job import Limits
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.store import read_records
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.checking import checked, checking_runner, tiny_cell
from tests.kernel_choices import FAST, SLOW

PASSED = Parity(against="numpy", forward=1e-6, gradient=None, tolerance=2e-5, passed=True)
AT_LENGTH = OwnLength(seq_len=8, against="numpy", forward=1e-6, passed=True)
LIMITS = Limits(60.0)


def test_what_passed_is_found_again_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "checks.json"
    first = ParityCache(file)
    first.keep("small", PASSED)
    first.keep("long", AT_LENGTH)
    first.keep("failed", PASSED.model_copy(update={"passed": False}))
    first.keep("not checked", AT_LENGTH.model_copy(update={"passed": None}))
    for cache in (first, ParityCache(file)):
        assert (cache.get("small"), cache.get("long")) == (PASSED, AT_LENGTH)
        assert (cache.get("failed"), cache.get("not checked"), cache.get("")) == (None, None, None)
    file.write_text("[{}")
    assert ParityCache(file).get("small") is None


def test_two_runs_at_a_time_keep_the_checks_of_both(tmp_path: Path) -> None:
    file = tmp_path / "checks.json"
    one, other = ParityCache(file), ParityCache(file)
    one.keep("one", PASSED)
    other.keep("other", AT_LENGTH)
    both = ParityCache(file)
    assert (both.get("one"), both.get("other")) == (PASSED, AT_LENGTH)


def test_without_a_file_or_a_folder_to_write_to_nothing_is_kept(tmp_path: Path) -> None:
    nowhere = ParityCache()
    nowhere.keep("small", PASSED)
    assert nowhere.get("small") is None
    (tmp_path / "file").write_text("")
    full = ParityCache(tmp_path / "file" / "checks.json")
    full.keep("small", PASSED)
    assert full.get("small") == PASSED  # in this run


def test_any_change_of_code_versions_or_machine_makes_the_checks_anew() -> None:
    environment = read_environment()
    file = parity_file(environment)
    assert parity_file(environment | {"taken": "later"}) == file
    for name, value in (
        ("code_sha256", "0" * 64), ("versions", {"torch": "1"}), ("cpu", "another"),
        ("variables", {"XLA_FLAGS": "--fast"}), ("python", "3.99"), ("memory_bytes", 1),
    ):  # fmt: skip
        assert parity_file(environment | {name: value}) != file


def asked(file: Path, *cells: Cell, kernel: Any = None, framework: str = "torch") -> list[str]:
    """What a new run has to check for cells."""
    runner, host = checking_runner(framework)
    runner.checks.kept = ParityCache(file)
    for cell in cells:
        runner.checks.check(cell, kernel, LIMITS)
    return host.kinds()


def test_a_later_run_checks_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "checks.json"
    cell = tiny_cell("V", "torch", "train")
    assert asked(file, cell, cell) == ["parity", "own_length"]
    assert asked(file, cell, cell) == []
    longer = tiny_cell("V", "torch", "train", 16)
    assert asked(file, longer, cell) == ["own_length"]
    assert asked(file, tiny_cell("V", "torch", "forward")) == ["own_length"]
    assert asked(file, tiny_cell("D", "torch", "train")) == ["parity", "own_length"]
    assert asked(file, cell, kernel=SLOW) == ["parity", "own_length"]
    assert asked(file, cell, kernel=FAST) == ["parity", "own_length"]
    assert asked(file, cell, kernel=SLOW) == asked(file, cell) == []


def test_a_record_has_what_was_found_and_when(tmp_path: Path) -> None:
    """The same in the run that checked and in a later one, which has no other reply to go by."""
    file = tmp_path / "checks.json"
    cell = tiny_cell("V", "torch", "train")
    records = []
    for _ in range(2):
        runner, _ = checking_runner("torch")
        runner.checks.kept = ParityCache(file)
        records.append(checked(runner, cell))
    first, later = (record.measurements.parity for record in records)
    assert first is not None and first.own_length is not None
    assert first == later
    assert first.forward is not None and first.own_length.gradient is not None
    assert "" < first.checked_at <= first.own_length.checked_at <= records[1].started


def test_a_check_that_did_not_pass_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "checks.json"
    cell = tiny_cell("V", "torch", "forward")
    monkeypatch.setattr(own_length, "FORWARD_TOLERANCE", {"float32": 0.0})
    assert asked(file, cell) == ["parity", "own_length"]
    assert asked(file, cell) == ["own_length"]
    monkeypatch.undo()
    assert asked(file, cell) == ["own_length"]
    assert asked(file, cell) == []


def plan(**measure: Any) -> Plan:
    """One cell in torch."""
    options = {"rounds": 1, "min_samples": 2, "min_seconds": 0.001, "aa": False, "ceiling": False}
    suite = {
        "axes": {"variant": ["R"], "framework": ["torch"], "mode": ["forward"], "seq_len": [8]},
        "model": {"kind": "mixer", "d_model": 8, "heads": 2}, "measure": options | measure,
    }  # fmt: skip
    return make_plan(parse_suite(str(suite), name="mine", source="mine.yaml"), "cpu")


def checked_at(run_dir: Path, **changes: Any) -> str:
    """When the check was made that a new run has in its record."""
    plugins = changes.pop("plugins", [])
    run_plan(plan(**changes), run_dir, plugins=plugins, observer=Silent())
    (record,) = read_records(run_dir)
    assert record.outcome == "ok"
    assert record.measurements.parity is not None
    return record.measurements.parity.checked_at


@pytest.mark.long
def test_a_run_takes_over_what_an_earlier_one_checked_unless_told_not_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = checked_at(tmp_path / "first")
    assert checked_at(tmp_path / "second") == first
    assert checked_at(tmp_path / "again", parity_again=True) > first
    assert checked_at(tmp_path / "plugin", plugins=["tests.plugins.known"]) > first
    monkeypatch.setattr(one_place, "has_installed_extensions", lambda: True)
    assert checked_at(tmp_path / "installed") > first
