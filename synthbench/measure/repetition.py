"""Whether repeated steps on the same inputs give the same results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from synthbench.measure.parity import FORWARD_TOLERANCE, relative_error
from synthbench.measure.plausibility import ImplausibleError
from synthbench.mixers.base import Array

# Two results that may each be off by the tolerance of the parity check. Most are equal bit for bit;
# a kernel that is chosen for later calls, or one that adds in any order, rounds in another way.
TOLERANCES = 2
# Of the time that a cell takes: how much the repetition of train steps may add.
REPEATED_SHARE = 0.03


def require_same(first: Array, last: Array, dtype: str, what: str) -> None:
    """Raise ImplausibleError if two results differ by more than rounding errors of the type."""
    allowed = TOLERANCES * FORWARD_TOLERANCE[dtype]
    error = float("inf")
    if first.shape == last.shape:
        error = relative_error(last, first.astype(np.float64))
    if not error <= allowed:  # also for NaN
        raise ImplausibleError(
            f"{what} differs by {error:.2g} of its largest value (at most {allowed:.2g}), with the "
            "same inputs and parameters: the steps that were timed do not compute what the first "
            "one did, or had not finished when they returned"
        )


def affordable_steps(step_seconds: float, fixed_seconds: float, spent: float, wanted: int) -> int:
    """How many of the wanted steps may be repeated within REPEATED_SHARE of the seconds spent."""
    left = REPEATED_SHARE * spent - fixed_seconds
    return max(0, min(wanted, int(left / step_seconds))) if step_seconds else wanted


def require_same_losses(
    first: Sequence[float], repeat: Callable[[], float], dtype: str, steps: int
) -> None:
    """Raise ImplausibleError unless repeated train steps have the losses of the first ones.

    A later loss that is not finite is left out: in float16, Adam may divide by zero.
    """
    for number, loss in enumerate(first[:steps], start=1):
        repeated = repeat()
        if math.isfinite(loss):
            what = f"the loss of train step {number}, repeated after the timed steps,"
            require_same(np.array(loss), np.array(repeated), dtype, what)
