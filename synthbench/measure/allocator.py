"""Make the C library keep freed memory, so that its behaviour is the same in every process.

By default, whether glibc returns a large freed buffer to the system depends on the sizes that the
process freed before. If it returns the buffer, the kernel must clear the same pages again in each
step. That takes up to a third of the step time, in one process and not in the next.

Threads other than the first have arenas of their own, of 64 MiB at most: what is larger is returned
to the system in any case. XLA allocates in such threads. So a process starts with one arena for all
(`ONE_ARENA`): the C library reads that variable only then.
"""

from __future__ import annotations

import ctypes

# malloc.h; see mallopt(3)
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER = -1
PAD_BYTES = 2**26
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}  # an environment variable of glibc; see mallopt(3)


def keep_freed_memory() -> bool:
    """Make this process keep freed memory from now on; False if the C library cannot (not glibc).

    Measure peak memory before this call: memory kept from an earlier step hides the next peak.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, NEVER), (M_TOP_PAD, PAD_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
