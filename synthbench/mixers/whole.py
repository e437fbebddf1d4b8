"""Whole numbers: sizes as they come in, and what divides them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import isqrt
from typing import Any

from synthbench.errors import ShapeError, shown

MOST_LISTED = 12
LARGEST = 2**63 - 1  # the longest axis that any framework can index
LARGEST_TRIED = 10_000  # a divisor above it is listed only as the partner of one below


def whole(name: str, value: Any, least: int = 1) -> int:
    """A size as a Python int, which never overflows: an int or one of NumPy's, not a bool.

    Raises ShapeError for anything else, for less than `least` and for more than LARGEST.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ShapeError(
            f"{name} is {shown(value)} ({type(value).__name__}); "
            f"it must be a whole number of at least {least}"
        ) from None
    if number < least:
        raise ShapeError(f"{name} is {shown(number)}; it must be at least {least}")
    if number > LARGEST:
        raise ShapeError(f"{name} is {shown(number)}; it must be at most {LARGEST}")
    return number


def factor_pairs(number: int) -> list[tuple[int, int]]:
    """Pairs (a, b) with a b = number and a <= b, the smaller up to LARGEST_TRIED."""
    tried = range(1, min(isqrt(number), LARGEST_TRIED) + 1)
    return [(a, number // a) for a in tried if number % a == 0]


def divisors(number: int) -> list[int]:
    """What divides a number, in order, as far as `factor_pairs` finds it."""
    pairs = factor_pairs(number)
    return sorted({factor for pair in pairs for factor in pair})


def listed(values: Sequence[Any], between: str = ", ") -> str:
    """Values side by side, the middle of a long list left out."""
    if len(values) > MOST_LISTED:
        values = [*values[: MOST_LISTED - 1], "...", values[-1]]
    return between.join(map(str, values))
