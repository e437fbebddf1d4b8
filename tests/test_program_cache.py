"""Compiled programs of earlier runs: whose they are, how many stay, and who loads them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from synthbench.measure.environment import read_environment
from synthbench.measure.program_cache import FOLDERS, program_folder, use_program_folder
from synthbench.record import Timing
from synthbench.report.data.table import Table
from synthbench.report.tables.catalog import make_tables
from synthbench.run.executors import one_place
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.store import read_run
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/synthbench/programs"


def test_other_code_versions_or_cores_have_another_folder(cache: Path) -> None:
    environment = read_environment()
    folders = {program_folder(environment)}
    assert folders == {program_folder(read_environment())}
    changes: list[dict[str, Any]] = [
        {"code_sha256": "other"}, {"versions": {}}, {"pinned_to": [7]}, {"place": "slot 1 of 2"},
        {"variables": {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}}, {"cpu": "other"},
    ]  # fmt: skip
    for change in changes:
        folders.add(program_folder(environment | change))
    assert len(folders) == 7
    assert {folder.parent for folder in folders} == {cache}


def test_the_folders_that_were_used_last_stay(cache: Path) -> None:
    environment = read_environment()
    made = []
    for number in range(FOLDERS + 2):
        folder = use_program_folder(environment | {"code_sha256": str(number)})
        assert folder is not None
        (folder / "program").write_text("kept")
        os.utime(folder, (number, number))
        made.append(folder)
    assert set(cache.iterdir()) == set(made[-FOLDERS:])
    oldest = use_program_folder(environment | {"code_sha256": "2"})
    assert oldest == made[2]
    assert oldest.stat().st_mtime > 100
    use_program_folder(environment | {"code_sha256": "new"})
    assert set(cache.iterdir()) >= {oldest, made[-1]}
    assert len(list(cache.iterdir())) == FOLDERS
    assert (oldest / "program").read_text() == "kept"


def test_only_this_user_can_change_what_is_loaded(cache: Path) -> None:
    folder = use_program_folder(read_environment())
    assert folder is not None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_without_a_cache_there_is_no_folder(cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("no folder")
    assert use_program_folder(read_environment()) is None


def plan(**measure: Any) -> Plan:
    options = {"rounds": 2, "threads": 1, "kernel_seconds": 0, "ceiling": False, "parity": False,
               "min_samples": 1, "min_seconds": 0.001, "max_seconds": 0.1}  # fmt: skip
    suite = {
        "axes": {"variant": ["V", "R"], "framework": ["jax"], "mode": ["forward"], "seq_len": [8]},
        "model": {"kind": "mixer", "d_model": 8, "heads": 2}, "measure": options | measure,
    }  # fmt: skip
    return make_plan(parse_suite(str(suite), name="mine", source="mine.yaml"), "cpu")


def run_of(run_dir: Path, **changes: Any) -> tuple[list[Timing], Table]:
    """The times of a new run, and its table of phases."""
    plugins = changes.pop("plugins", [])
    run_plan(plan(**changes), run_dir, plugins=plugins, observer=Silent())
    run = read_run(run_dir)
    timings = [record.measurements.timing for record in run.records]
    assert all(record.outcome == "ok" for record in run.records)
    (phases,) = (table for table in make_tables(run) if table.name == "phases")
    return [timing for timing in timings if timing is not None], phases


@pytest.mark.long
def test_a_run_loads_what_an_earlier_one_compiled_unless_told_not_to(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its first round it has the compile times of then, and says so; in the second none."""
    first, table = run_of(tmp_path / "first")
    assert len(first) == 6
    known = {one.compile_seconds for one in first}
    assert None in known
    assert "an earlier run" not in table.note
    second, table = run_of(tmp_path / "second")
    of_first = [one for one in second if one.compile_seconds is not None]
    assert len(of_first) == 3
    for one in of_first:
        assert one.compile_seconds in known
        assert one.compiled_at is not None
    assert "The compile times of jax are those of an earlier run" in table.note
    monkeypatch.setattr(one_place, "has_installed_extensions", lambda: False)
    for name, changes in (
        ("again", {"compile_again": True}), ("plugin", {"plugins": ["tests.plugins.known"]}),
    ):  # fmt: skip
        anew, table = run_of(tmp_path / name, **changes)
        assert not known & {one.compile_seconds for one in anew} - {None}
        assert "an earlier run" not in table.note
