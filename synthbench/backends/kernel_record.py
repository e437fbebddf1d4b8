"""Which kernels a form uses, recorded by the code that chooses between several.

Some kernels are chosen only for long inputs. To let a small input check them too, code asks
`threshold` for the sizes from which such kernels are used, and for the sizes of their blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 4

_recordings: list[dict[str, None]] = []
_forced = False


def record_kernel(kernel: str) -> None:
    """Record a kernel that is about to be used, in every `recording_kernels` around the call."""
    for recording in _recordings:
        recording[kernel] = None


def threshold(size: int) -> int:
    """`size` (of a block, or from which a kernel is used); tiny inside `force_long_kernels`."""
    return min(size, SMALL) if _forced else size


@contextmanager
def force_long_kernels() -> Iterator[None]:
    """Inside the block, choose kernels as if every input were long."""
    global _forced
    before, _forced = _forced, True
    try:
        yield
    finally:
        _forced = before


@contextmanager
def recording_kernels() -> Iterator[dict[str, None]]:
    """Collect the kernels that are used inside the block, each once, in order."""
    recording: dict[str, None] = {}
    _recordings.append(recording)
    try:
        yield recording
    finally:
        _recordings.remove(recording)
