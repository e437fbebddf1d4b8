"""Where two arrays first differ, in words."""

from __future__ import annotations

import numpy as np

from synthbench.mixers.base import Array


def first_difference(got: Array, want: Array, allowed: float) -> str:
    """The first value of `got` that is more than `allowed` off; "" if none is.

    First in the order of memory. Arrays of different shapes are described by their shapes, those
    with values that are not finite by the first of these.
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    for name, array in (("got", got), ("expected", want)):
        if found := first_not_finite(array):
            return f"{name} {found}"
    with np.errstate(invalid="ignore"):  # `allowed` may be NaN
        wrong = ~(np.abs(got.astype(np.float64) - want) <= allowed)
    if not wrong.any():
        return ""
    index, count = first_index(wrong), int(wrong.sum())
    values = f"got {got[index]:.8g}, expected {want[index]:.8g}"
    return f"first at {list(index)} ({count} of {wrong.size} values): {values}"


def first_not_finite(values: Array) -> str:
    """The first infinite or NaN value and its index; "" if all are finite."""
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return ""
    index = first_index(wrong)
    return f"{values[index]} at {list(index)} ({int(wrong.sum())} of {wrong.size} values)"


def first_index(flags: Array) -> tuple[int, ...]:
    """The index of the first True."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(flags)), flags.shape))
