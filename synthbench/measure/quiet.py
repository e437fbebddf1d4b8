"""Wait until nothing else uses the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

BUSY = 10.0  # percent of all cores: more is not quiet
BUSY_CORE = 50.0  # percent of one core: neither is this, on a machine with many
LOOK_SECONDS = 2.0


def wait_for_quiet(
    limit: float = 120.0,
    busy: Callable[[float], float] | None = None,
    clock: Callable[[], float] = time.monotonic,
    cores: int | None = None,
) -> bool:
    """Wait until the cores are idle for LOOK_SECONDS, at most `limit` seconds; whether they were.

    `busy`: sleeps for some seconds and gives the percentage of the cores' time that was used.
    `cores`: how many that are; None: those of this machine.
    """
    if busy is None:
        import psutil

        busy = psutil.cpu_percent
    most = min(BUSY, BUSY_CORE / (cores or os.cpu_count() or 1))
    begin = clock()
    while busy(LOOK_SECONDS) > most:
        if clock() - begin >= limit:
            return False
    return True
