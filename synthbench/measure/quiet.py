"""Wait until nothing else uses the processor."""

from __future__ import annotations

import time
from collections.abc import Callable

BUSY = 10.0  # percent of all cores: more is not quiet
LOOK_SECONDS = 2.0


def wait_for_quiet(
    limit: float = 120.0,
    busy: Callable[[float], float] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Wait until the cores are idle for LOOK_SECONDS, at most `limit` seconds; whether they were.

    `busy`: sleeps for some seconds and gives the percentage of the cores' time that was used.
    """
    if busy is None:
        import psutil

        busy = psutil.cpu_percent
    begin = clock()
    while busy(LOOK_SECONDS) > BUSY:
        if clock() - begin >= limit:
            return False
    return True
