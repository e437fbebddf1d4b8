"""Checks of sizes and options, with messages that name what is allowed."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import isqrt
from typing import Any

from synthbench.errors import NotationError, ShapeError, quote

MOST_LISTED = 12
LARGEST = 2**63 - 1  # the longest axis that any framework can index
LARGEST_TRIED = 10_000  # a larger divisor is found only together with a smaller one


def require_integer(name: str, value: Any, least: int = 1) -> int:
    """A size as a Python int, which never overflows: an int or one of NumPy's, not a bool.

    Raises ShapeError for anything else, for less than `least` and for more than LARGEST.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ShapeError(
            f"{name} is {quote(value)} ({type(value).__name__}); "
            f"it must be an integer of at least {least}"
        ) from None
    if number < least:
        raise ShapeError(f"{name} is {quote(number)}; it must be at least {least}")
    if number > LARGEST:
        raise ShapeError(f"{name} is {quote(number)}; it must be at most {LARGEST}")
    return number


def factor_pairs(number: int) -> list[tuple[int, int]]:
    """Pairs (a, b) with a b = number and a <= b, the smaller up to LARGEST_TRIED."""
    tried = range(1, min(isqrt(number), LARGEST_TRIED) + 1)
    return [(a, number // a) for a in tried if number % a == 0]


def divisors(number: int) -> list[int]:
    """The divisors of a number, in order, that `factor_pairs` finds."""
    pairs = factor_pairs(number)
    return sorted({factor for pair in pairs for factor in pair})


def shorten_list(values: Sequence[Any], between: str = ", ") -> str:
    """Values joined to one text, without the middle of a long list."""
    if len(values) > MOST_LISTED:
        values = [*values[: MOST_LISTED - 1], "...", values[-1]]
    return between.join(map(str, values))


def require_choice(owner: str, option: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise NotationError unless `value` is one of `choices`."""
    if value not in choices:
        raise NotationError(
            f"{owner}: {option} is {quote(value)}; use one of {', '.join(map(str, choices))}"
        )


def require_positive(owner: str, **values: int | None) -> None:
    """Raise NotationError unless each value is an integer of at least 1 (None passes)."""
    for option, value in values.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= 1):
            raise NotationError(
                f"{owner}: {option} is {quote(value)}; use an integer of at least 1"
            )
        if value is not None and value > LARGEST:
            raise NotationError(f"{owner}: {option} is {quote(value)}; use at most {LARGEST}")
