"""What a form chose where several kernels would do, told by the code that chooses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_listeners: list[dict[str, None]] = []


def tell(choice: str) -> None:
    """Name a kernel that is about to be used; heard by every `listening` around the call."""
    for heard in _listeners:
        heard[choice] = None


@contextmanager
def listening() -> Iterator[dict[str, None]]:
    """Collect, each once and in order, what is told in this process until the end of the block."""
    heard: dict[str, None] = {}
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)
