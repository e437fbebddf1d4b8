"""A run as the JSON file that `pytest-benchmark compare` and --benchmark-compare read."""

from __future__ import annotations

import json
from typing import Any

from synthbench.errors import ResultsError
from synthbench.record import Record
from synthbench.report.export.benchmark import (
    benchmark_names,
    cell_rounds,
    extra_info,
    group_names,
    has_benchmark,
    parameters_of,
    samples_of,
    setting_name,
    worst,
)
from synthbench.report.export.quartiles import benchmark_statistics
from synthbench.run_info import RunInfo
from synthbench.store import Run

FORMAT_VERSION = "5.3.1"  # of pytest-benchmark


def pytest_benchmark_text(run: Run) -> str:
    """The text of the file: one benchmark per cell that is ok in all its rounds and has samples.

    The other cells are listed in `synthbench.left_out`, which pytest-benchmark does not read.
    Raises ResultsError if no cell is such a one.
    """
    cells = cell_rounds(run.records)
    names = benchmark_names(rounds[0].cell for rounds in cells.values())
    groups = group_names(rounds[0].cell for rounds in cells.values())
    benchmarks, left_out = [], []
    for rounds in sorted(cells.values(), key=_order):
        name, deciding = names[rounds[0].id], worst(rounds)
        if has_benchmark(rounds):
            benchmarks.append(_benchmark(run.info, name, groups[deciding.id], rounds))
        else:
            failure = {"outcome": deciding.outcome, "reason": deciding.reason}
            left_out.append({"name": name, "cell": deciding.id, **failure})
    if not benchmarks:
        raise ResultsError(
            f"no cell of {run.path} has samples to export; `synthbench tables` shows the reasons"
        )
    content = {
        "machine_info": _machine(run.info),
        "commit_info": _commit(run.info),
        "benchmarks": benchmarks,
        "datetime": run.info.started,
        "version": FORMAT_VERSION,
        "synthbench": {
            "suite": run.info.suite,
            "run": run.full_path.name,
            "device": run.info.device,
            "left_out": left_out,
        },
    }
    return json.dumps(content, indent=1) + "\n"


def _order(rounds: list[Record]) -> tuple[Any, ...]:
    """The sort key of a cell; the order of the records is random."""
    cell = rounds[0].cell
    return cell.framework, cell.mode, cell.seq_len, setting_name(cell), cell.variant, cell.id


def _benchmark(info: RunInfo, name: str, group: str, rounds: list[Record]) -> dict[str, Any]:
    cell = rounds[0].cell
    return {
        "group": group,
        "name": name,
        "fullname": f"{info.suite}::{name}",
        "params": parameters_of(cell),
        "param": name,
        "extra_info": extra_info(rounds),
        "options": _options(info, rounds),
        "stats": benchmark_statistics(samples_of(rounds)),
    }


def _options(info: RunInfo, rounds: list[Record]) -> dict[str, Any]:
    """How the cell was sampled, in the terms of pytest-benchmark."""
    measure = info.settings.get("measure", {})
    timing = rounds[-1].measurements.timing
    return {
        "disable_gc": True,  # always, during sampling
        "timer": timing and timing.clock,
        "min_rounds": measure.get("min_samples"),
        "max_time": measure.get("max_seconds"),
        "min_time": measure.get("min_seconds"),
        "precision": measure.get("precision"),
        "confidence": 0.95,
        "warmup": True,
    }


def _machine(info: RunInfo) -> dict[str, Any]:
    """What run.json says about the machine; host names are not stored."""
    environment = info.environment
    return {
        "node": None,
        "processor": environment.get("cpu"),
        "python_version": environment.get("python"),
        "release": environment.get("platform"),
        "cpu": {
            "brand_raw": environment.get("cpu"),
            "count": environment.get("cpu_count") or len(environment.get("cores") or ()),
        },
        "memory_bytes": environment.get("memory_bytes"),
        "nvidia": environment.get("nvidia"),
        "versions": environment.get("versions"),
    }


def same_machine(machine_info: dict[str, Any], exported: dict[str, Any]) -> bool:
    """Whether pytest-benchmark's own machine_info matches that of an exported file."""
    here, there = (
        (machine.get("python_version"), cpu.get("brand_raw"), cpu.get("count"))
        for machine in (machine_info, exported)
        for cpu in [machine.get("cpu") or {}]
    )
    return here == there


def _commit(info: RunInfo) -> dict[str, Any]:
    """The commit of synthbench, if it ran from a checkout."""
    git = info.environment.get("git") or {}
    return {
        "id": git.get("commit", "unversioned"),
        "time": None,
        "author_time": None,
        "dirty": git.get("dirty", False),
        "project": "synthbench",
        "branch": "(unknown)",
    }
