"""Limit how much more memory this process may allocate."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from synthbench.measure.environment import available_memory

SHARE_OF_AVAILABLE = 0.9
# Address space that is reserved without being used: by threads (stacks, malloc arenas), of which
# XLA alone starts about twenty on two cores, 1.1 GB; by JAX's CUDA plugin where it is installed,
# 0.4 GB even for cells on the CPU.
RESERVED = 3 * 2**29
RESERVED_PER_CORE = 256 * 2**20
LARGEST_LIMIT = 2**62  # that setrlimit takes on every system


def limit_memory(memory_bytes: int | None, cores: int) -> int | None:
    """Limit further allocations of this process, by default to 90% of the available memory.

    Returns the bytes that it may still allocate; None if the system has no such limit.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    current = _address_space()
    if current is None:
        return None
    allowed = memory_bytes
    if allowed is None:
        allowed = int(available_memory() * SHARE_OF_AVAILABLE)
    reserved = current + RESERVED + cores * RESERVED_PER_CORE
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    highest = LARGEST_LIMIT if hard == resource.RLIM_INFINITY else hard
    wanted = min(reserved + allowed, highest)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    return max(0, min(allowed, highest - reserved))


def raise_memory_limit(more_bytes: int) -> None:
    """Raise the limit of this process by these bytes, if it has a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = min(soft + more_bytes, LARGEST_LIMIT)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def lift_memory_limit() -> None:
    """Remove the limit, so that a process out of memory can still report it."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _address_space() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
