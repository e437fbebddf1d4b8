"""What a form chose where several kernels would do, told by the code that chooses.

Kernels for long sequences are chosen by size. So that a small input can check them, the sizes from
which on they are chosen, and the sizes of their blocks, are asked for by `bound`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SMALL = 4

_listeners: list[dict[str, None]] = []
_as_if_long = False


def tell(choice: str) -> None:
    """Name a kernel that is about to be used; heard by every `listening` around the call."""
    for heard in _listeners:
        heard[choice] = None


def bound(size: int) -> int:
    """A size of a block, or one from which on a kernel is chosen; tiny within `as_if_long`."""
    return min(size, SMALL) if _as_if_long else size


@contextmanager
def as_if_long() -> Iterator[None]:
    """Choose kernels, until the end of the block, as if every input were long."""
    global _as_if_long
    before, _as_if_long = _as_if_long, True
    try:
        yield
    finally:
        _as_if_long = before


@contextmanager
def listening() -> Iterator[dict[str, None]]:
    """Collect, each once and in order, what is told in this process until the end of the block."""
    heard: dict[str, None] = {}
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)
