"""Which kernels a form uses, recorded by the code that chooses among several.

Some kernels are used only for long inputs. So that a small input can test them too, code passes
through `threshold` each size from which such a kernel is used, and each size of its blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 4
REFERENCE_KERNEL = "reference form"  # where the equations as written are the faster kernel

_recordings: list[dict[str, None]] = []
_forced = False


def record_kernel(kernel: str) -> None:
    """Record that a kernel is used, in every `recording_kernels` block around the call."""
    for recording in _recordings:
        recording[kernel] = None


def threshold(size: int) -> int:
    """`size`, the length of a block or the least for a kernel; tiny in `force_long_kernels`."""
    return min(size, SMALL) if _forced else size


@contextmanager
def force_long_kernels() -> Iterator[None]:
    """In this block, choose kernels as if every input were long."""
    global _forced
    before, _forced = _forced, True
    try:
        yield
    finally:
        _forced = before


@contextmanager
def recording_kernels() -> Iterator[dict[str, None]]:
    """Collect the kernels that are used in this block, each once, in order of first use."""
    recording: dict[str, None] = {}
    _recordings.append(recording)
    try:
        yield recording
    finally:
        _recordings[:] = [other for other in _recordings if other is not recording]
