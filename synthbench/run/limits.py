"""Settings of a process: its cores, and that it ends together with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

from synthbench.measure.environment import usable_cores

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(wanted: bool = True) -> None:
    """Have this process killed when its parent dies (Linux), or undo that."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL if wanted else 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent dies (Linux), to be able to end them."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def pin(threads: int | None) -> list[int]:
    """Keep this process to the first `threads` usable cores; returns the cores it has."""
    cores = usable_cores()
    if threads is not None:
        cores = cores[:threads]
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
    return cores


def thread_variables(threads: int) -> dict[str, str]:
    """Environment variables that bound the thread pools which read them on loading."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def be_killed_first() -> None:
    """Where the kernel runs out of memory, let it choose this process."""
    # Where this is not Linux, or not allowed, the bound of limit_memory remains.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def oom_kills() -> int:
    """How many processes the kernel has killed for memory so far; 0 if that is unknown."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
