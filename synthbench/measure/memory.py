"""Peak memory of a step on a CPU: the known state plus the most that the step adds.

A step adds the rise of the peak resident set of the process, which is reset just before the step,
above the resident set at that moment. So the remains of building and compiling do not count. Pages
of libraries that the step is the first to use raise the resident set too; they are file-backed, and
the growth of that part is subtracted.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc(5), clear_refs

# The resident set has settled if this many consecutive readings, this far apart, are not lower.
SETTLE_READINGS = 3
SETTLE_SECONDS = 0.005
SETTLE_TOLERANCE = 2**16
SETTLE_ATTEMPTS = 100

Method = Literal["reset", "no reset", "no proc"]
METHODS: dict[Method, str] = {
    "reset": "known state + rise of the peak resident set (VmHWM, reset before the step)",
    "no reset": "known state + rise of the life-time peak resident set; clear_refs is not writable",
    "no proc": "known state + growth of ru_maxrss, a lower bound; there is no /proc here",
}


@dataclass(frozen=True)
class ResidentMark:
    """The resident set just before a step, in bytes."""

    method: Method
    resident: int
    file_backed: int

    @property
    def description(self) -> str:
        """How a peak above this mark is measured; stored in records."""
        return METHODS[self.method]

    @property
    def zero_is_possible(self) -> bool:
        """Whether zero can be right: without a reset, an earlier peak hides a lower one."""
        return self.method != "reset"

    def rise(self) -> int:
        """How far the resident set rose above this mark at its peak, in bytes."""
        if self.method == "no proc":
            return max(0, _max_resident() - self.resident)
        now = _status()
        library_pages = max(0, now["RssFile"] - self.file_backed)
        return max(0, now["VmHWM"] - self.resident - library_pages)


def mark_resident() -> ResidentMark:
    """Return freed memory to the system, reset the peak, and read the resident set.

    The collection also ends what JAX keeps until it is called again: the arrays that it has copied
    to the device. Freed in the step, they would make room for what the step allocates.
    """
    gc.collect()
    _settle()
    try:
        CLEAR_REFS.write_text(RESET_PEAK)
        method: Method = "reset"
    except OSError:
        method = "no reset"
    if not STATUS.exists():
        return ResidentMark("no proc", _max_resident(), 0)
    now = _status()
    return ResidentMark(method, now["VmRSS"], now["RssFile"])


def _status() -> dict[str, int]:
    """The memory lines of /proc/self/status, in bytes."""
    lines = (line.split() for line in STATUS.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


def _settle() -> None:
    """Return freed memory to the system until the resident set stops falling.

    XLA frees the buffers of a step on its own threads, shortly after the results are available.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is None or not STATUS.exists():
        return
    steady = 0
    lowest = sys.maxsize
    for _ in range(SETTLE_ATTEMPTS):
        trim(0)
        resident = _status()["VmRSS"]
        steady = steady + 1 if resident > lowest - SETTLE_TOLERANCE else 0
        if steady == SETTLE_READINGS:
            return
        lowest = min(lowest, resident)
        time.sleep(SETTLE_SECONDS)


def _max_resident() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
