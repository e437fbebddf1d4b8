"""What the system is told about a child: cores, memory, and dying with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

from synthbench.measure.environment import available_memory, usable_cores

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

SHARE_OF_AVAILABLE = 0.9
# Address space that threads reserve (stacks, malloc arenas) without using it: XLA alone starts some
# twenty threads on two cores, which is 1.1 GB.
RESERVED = 2**30
RESERVED_PER_CORE = 256 * 2**20


def die_with_parent(wanted: bool = True) -> None:
    """Have this process killed when its parent dies (Linux), or take that back."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL if wanted else 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies (Linux), so as to end them."""
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


def limit_memory(memory_bytes: int | None, cores: int) -> int | None:
    """Bound this process's further memory, by default to 90% of what is available now.

    Returns the bytes allowed beyond what it holds; None where the system has no such bound.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = _address_space()
    if held is None:
        return None
    allowed = memory_bytes or int(available_memory() * SHARE_OF_AVAILABLE)
    wanted = held + allowed + RESERVED + cores * RESERVED_PER_CORE
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    return allowed


def raise_memory_limit(more_bytes: int) -> None:
    """Allow this process so many bytes beyond its bound, if it has one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = soft + more_bytes
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def lift_memory_limit() -> None:
    """Take the bound back, so that what ran out of memory can still say so."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def be_killed_first() -> None:
    """Where the kernel runs out of memory, let it choose this process."""
    # Where this is not Linux, or not allowed, the bound of limit_memory remains.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def oom_kills() -> int:
    """How many processes the kernel has killed for memory so far; 0 where it does not tell."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _address_space() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
