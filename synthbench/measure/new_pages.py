"""Time a step without the time in which the system gave this process memory.

The first steps of a kernel get memory page by page, each cleared before: 1 to 10 microseconds for a
page were seen, and so a step of R that took twice as long as the later ones. Kernels differ in how
much memory they need, and in what the steps of another one left for them.
"""

from __future__ import annotations

import resource
from collections.abc import Callable

PAGE_SECONDS = 2e-6  # that a new page takes, about
MOST_SHARE = 0.02  # of the time of a step that new pages may take
REPEATS = 3
MOST_SECONDS = 1.0  # of a step that is repeated


def new_pages() -> int:
    """How many pages of memory the system gave this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def steady_seconds(once: Callable[[], float], pages: Callable[[], int] = new_pages) -> float:
    """The seconds of a step that got few new pages of memory, or of the last one tried.

    `once` does a step and returns its seconds. It is repeated, if it is short, as long as new pages
    took more than MOST_SHARE of its time, at most REPEATS times.
    """
    for _ in range(REPEATS + 1):
        before = pages()
        seconds = once()
        if not waited_for_memory(pages() - before, seconds):
            break
    return seconds


def waited_for_memory(pages: int, seconds: float) -> bool:
    """Whether a step that got so many new pages is to be timed again."""
    return pages * PAGE_SECONDS > MOST_SHARE * seconds and seconds <= MOST_SECONDS
