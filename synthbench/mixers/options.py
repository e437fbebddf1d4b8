"""Checks of a mixer's options, with messages that name what would do."""

from __future__ import annotations

from typing import Any

from synthbench.errors import NotationError, shown
from synthbench.mixers.whole import LARGEST


def require_choice(owner: str, option: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise NotationError unless `value` is one of `choices`."""
    if value not in choices:
        raise NotationError(f"{owner}: {option} is {shown(value)}; use one of {', '.join(choices)}")


def require_positive(owner: str, **values: int | None) -> None:
    """Raise NotationError unless each value is a whole number of at least 1 (None passes)."""
    for option, value in values.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= 1):
            raise NotationError(
                f"{owner}: {option} is {shown(value)}; use a whole number of at least 1"
            )
        if value is not None and value > LARGEST:
            raise NotationError(f"{owner}: {option} is {shown(value)}; use at most {LARGEST}")
