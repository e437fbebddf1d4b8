"""How much memory this process may take beyond what it holds."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from synthbench.measure.environment import available_memory

SHARE_OF_AVAILABLE = 0.9
# Address space that threads reserve (stacks, malloc arenas) without using it: XLA alone starts some
# twenty threads on two cores, which is 1.1 GB.
RESERVED = 2**30
RESERVED_PER_CORE = 256 * 2**20
LARGEST_LIMIT = 2**62  # that setrlimit takes on every system


def limit_memory(memory_bytes: int | None, cores: int) -> int | None:
    """Bound this process's further memory, by default to 90% of what is available now.

    Returns the bytes allowed beyond what it holds; None where the system has no such bound.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = _address_space()
    if held is None:
        return None
    allowed = memory_bytes
    if allowed is None:
        allowed = int(available_memory() * SHARE_OF_AVAILABLE)
    reserved = held + RESERVED + cores * RESERVED_PER_CORE
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    highest = LARGEST_LIMIT if hard == resource.RLIM_INFINITY else hard
    wanted = min(reserved + allowed, highest)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    return max(0, min(allowed, highest - reserved))


def raise_memory_limit(more_bytes: int) -> None:
    """Allow this process so many bytes beyond its bound, if it has one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = min(soft + more_bytes, LARGEST_LIMIT)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def lift_memory_limit() -> None:
    """Take the bound back, so that what ran out of memory can still say so."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _address_space() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
