"""Results of repeated steps are the same, up to rounding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from synthbench.measure.parity import FORWARD_TOLERANCE
from synthbench.measure.plausibility import ImplausibleError
from synthbench.measure.repetition import (
    REPEATED_SHARE,
    TOLERANCES,
    affordable_steps,
    require_same,
    require_same_losses,
)

FIRST = np.array([0.5, -4.0, 0.0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_rounding_errors_are_allowed_relative_to_the_largest_value(dtype: str) -> None:
    allowed = 4.0 * TOLERANCES * FORWARD_TOLERANCE[dtype]
    require_same(FIRST, FIRST.copy(), dtype, "it")
    require_same(FIRST, np.add(FIRST, [0, 0, 0.99 * allowed]), dtype, "it")
    with pytest.raises(ImplausibleError, match="it differs by"):
        require_same(FIRST, np.add(FIRST, [0, 0, 1.01 * allowed]), dtype, "it")


@pytest.mark.parametrize(
    "last", [np.array([0.5, -4.0]), np.array([0.5, -4.0, np.nan]), np.array([0.5, -np.inf, 0.0])]
)
def test_another_shape_and_values_that_are_not_finite_differ(last: np.ndarray) -> None:
    with pytest.raises(ImplausibleError, match="differs by inf"):
        require_same(FIRST, last, "float32", "it")


def test_repeated_steps_cost_at_most_their_share() -> None:
    assert REPEATED_SHARE == 0.03
    assert affordable_steps(0.010, 0.0, 1.0, wanted=2) == 2  # 20 of 30 ms
    assert affordable_steps(0.020, 0.0, 1.0, wanted=2) == 1
    assert affordable_steps(0.040, 0.0, 1.0, wanted=2) == 0
    assert affordable_steps(0.010, 0.015, 1.0, wanted=2) == 1
    assert affordable_steps(0.010, 0.100, 1.0, wanted=2) == 0
    assert affordable_steps(0.0, 0.0, 1.0, wanted=2) == 2


def losses(*values: float) -> tuple[Iterator[float], list[float]]:
    taken: list[float] = []

    def take() -> Iterator[float]:
        for value in values:
            taken.append(value)
            yield value

    return take(), taken


def test_as_many_losses_are_compared_as_steps_were_afforded() -> None:
    repeated, taken = losses(2.0, 1.5)
    require_same_losses([2.0, 1.0], lambda: next(repeated), "float32", 1)
    assert taken == [2.0]
    repeated, _ = losses(2.0, 1.5)
    with pytest.raises(ImplausibleError, match="loss of train step 2, repeated after the timed"):
        require_same_losses([2.0, 1.0], lambda: next(repeated), "float32", 2)


def test_a_loss_that_was_not_finite_is_not_compared() -> None:
    repeated, taken = losses(2.0, 7.0)
    require_same_losses([2.0, float("nan")], lambda: next(repeated), "float32", 2)
    assert taken == [2.0, 7.0]
    repeated, _ = losses(float("nan"))
    with pytest.raises(ImplausibleError):
        require_same_losses([2.0], lambda: next(repeated), "float32", 1)
