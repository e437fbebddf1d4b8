"""What the C library does with freed memory, held fixed while steps are timed.

By default glibc gives a large buffer back to the system when it is freed, or keeps it, as the sizes
that the process happened to free before have it. Where it gives it back, each step has the kernel
clear the same pages anew: up to a third of its time, in one process and not in the next.
"""

from __future__ import annotations

import ctypes

# malloc.h; see mallopt(3)
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
NEVER = -1
PAD_BYTES = 2**26


def keep_freed_memory() -> bool:
    """Have this process keep what it frees, for good; whether the C library knows how (glibc).

    Peak memory is to be read before: what was kept of an earlier step is no rise of the next.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, NEVER), (M_TOP_PAD, PAD_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
