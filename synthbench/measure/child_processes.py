"""The child processes of this process, as the system lists them: what they do, and their time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

PROC = Path("/proc")

# torch.compile starts its pool of compilers beside the first compilation, whatever steps do later.
COMPILERS = b"torch/_inductor/compile_worker/"
STATE, USER, SYSTEM = 0, 11, 12  # fields of a stat file after the name, proc(5)
RUNS = "R"  # or waits for a core
ENDED = ["S", *["0"] * SYSTEM]


def descendants(process: int, proc: Path = PROC) -> list[int]:
    """The child processes of a process, and theirs, without COMPILERS; empty without /proc."""
    found: list[int] = []
    for path in (proc / str(process)).glob("task/*/children"):
        try:
            children = [int(word) for word in path.read_text().split()]
        except OSError:
            continue
        for child in children:
            if not _is_compiler(child, proc):
                found += [child, *descendants(child, proc)]
    return found


def cpu_seconds(processes: Sequence[int], proc: Path = PROC) -> float:
    """CPU seconds of these processes so far, with their threads."""
    ticks = 0
    for process in processes:
        fields = _fields(proc / str(process) / "stat")
        ticks += int(fields[USER]) + int(fields[SYSTEM])
    return ticks / os.sysconf("SC_CLK_TCK")


def can_run(path: Path) -> bool:
    """Whether the thread of a stat file runs, or waits for a core."""
    return _fields(path)[STATE] == RUNS


def _fields(path: Path) -> list[str]:
    """The fields of a stat file after the name, proc(5); of a thread that has ended, ENDED."""
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split() or ENDED
    except OSError:
        return ENDED


def _is_compiler(process: int, proc: Path) -> bool:
    """Whether a process belongs to the framework's own COMPILERS."""
    try:
        return COMPILERS in (proc / str(process) / "cmdline").read_bytes()
    except OSError:
        return False
