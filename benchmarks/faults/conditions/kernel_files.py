"""Files of the kernel that a container or its security rules may hide."""

from __future__ import annotations

from pathlib import Path

from benchmarks.faults.conditions.condition import judge_finished, start_run, wait
from benchmarks.faults.conditions.patches import NO_FILE, write_plugin
from synthbench.store import read_run


def no_clear_refs(folder: Path) -> tuple[list[str], str]:
    """The peak of memory cannot be reset: records say so."""
    return _without(folder, "CLEAR_REFS", "clear_refs is not writable")


def no_status(folder: Path) -> tuple[list[str], str]:
    """The resident set cannot be read: records say so."""
    return _without(folder, "STATUS", "lower bound")


def _without(folder: Path, name: str, says: str) -> tuple[list[str], str]:
    options = write_plugin(folder, NO_FILE.replace("{name}", name))
    command = start_run(folder, more=options)
    problems = wait(command) + judge_finished(folder / "run")
    for record in read_run(folder / "run").records:
        memory = record.measurements.memory
        if memory is None or says not in memory.method:
            problems.append(f"{record.cell.variant}: memory {memory} does not say {says!r}")
    return problems, command.text("err")
