"""Rounds whose samples scatter more count less, as weighted least squares has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.analysis.cell_noise import CellNoise, noise_of_cells
from synthbench.analysis.moderated_variance import t_quantile
from synthbench.analysis.outlying_rounds import Rounds, set_aside
from synthbench.analysis.weighted_rounds import LEAST_ERROR, Weighted, usual_error, weighted

CELLS = 200


def of_one(logs: list[float], errors: list[float], usual: float) -> Weighted:
    (found,) = weighted([Rounds(dict(enumerate(logs)))], [dict(enumerate(errors))], usual)
    return found


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0.5, 8)), min_size=2, max_size=6),
    st.floats(1e-3, 10),
)
def test_they_are_fitted_by_weighted_least_squares(
    rounds: list[tuple[float, float]], usual: float
) -> None:
    """numpy fits a constant to rounds whose standard deviation is the root of their error."""
    logs, relative = ([*column] for column in zip(*rounds, strict=True))
    found = of_one(logs, [usual * one for one in relative], usual)
    weights = 1 / np.array(relative)
    (mean,), (residual, *_) = np.polyfit(
        np.zeros(len(logs)), logs, 0, w=np.sqrt(weights), full=True
    )[:2]
    assert np.mean([*found.rounds.logs.values()]) == pytest.approx(mean, abs=1e-12)
    assert found.variance == pytest.approx(residual / (len(logs) - 1), abs=1e-12)
    # The square of the standard error of a weighted mean is the variance over the sum of weights.
    assert found.relative / len(logs) == pytest.approx(1 / weights.sum())
    moved = np.array([*found.rounds.logs.values()]) - logs
    assert moved == pytest.approx(np.full(len(logs), moved[0]), abs=1e-12)


def test_equal_errors_change_nothing_but_the_unit_of_the_variance() -> None:
    found = of_one([0.1, 0.3, 0.2], [0.06] * 3, 0.02)
    assert [*found.rounds.logs.values()] == pytest.approx([0.1, 0.3, 0.2])
    assert (found.variance, found.relative) == pytest.approx((0.01 / 3, 3))
    assert found.variance * found.relative == pytest.approx(np.var([0.1, 0.3, 0.2], ddof=1))


def test_small_and_unknown_errors_are_bounded() -> None:
    """Samples that are equal by chance, or a single one, do not make a round certain."""
    least = of_one([0.0, 1.0], [0.0, 1.0], 1.0)
    assert np.mean([*least.rounds.logs.values()]) == pytest.approx(LEAST_ERROR / (1 + LEAST_ERROR))
    for unknown in (math.inf, math.nan):
        found = of_one([0.0, 1.0], [unknown, 1.0], 1.0)
        assert [*found.rounds.logs.values()] == pytest.approx([0.0, 1.0])


def test_where_rounds_were_set_aside_the_others_have_equal_weights() -> None:
    rounds = Rounds({0: 0.1, 1: 0.3, 2: 0.2, 3: 0.2}, frozenset({3}))
    errors = {0: 1.0, 1: 4.0, 2: 2.0, 3: 100.0}
    (found,) = weighted([rounds], [errors], 1.0)
    assert found.rounds.aside == {3}
    assert [*found.rounds.logs.values()] == pytest.approx([0.1, 0.3, 0.2, 0.2])
    assert found.relative == pytest.approx(2.0)  # the geometric mean of the three
    assert found.variance * found.relative == pytest.approx(0.02 / 3)  # as of all four


def test_equal_errors_change_nothing_where_a_round_was_set_aside() -> None:
    """The mean keeps the standard error that it has without errors, that of a trimmed mean."""
    logs = {0: 0.0, 1: 0.01, 2: -0.01, 3: 0.5}
    rounds = set_aside(logs, 0.01)
    assert rounds.aside == {3}
    (found,) = weighted([rounds], [dict.fromkeys(logs, 0.2)], 0.1)
    plain = np.var([*rounds.logs.values()], ddof=1)
    assert found.variance * found.relative == pytest.approx(plain)


def test_the_usual_error_is_the_median_of_all_rounds() -> None:
    assert usual_error([{0: 1.0, 1: 3.0}, {0: 2.0}, {0: 0.0, 1: math.inf}]) == 2.0
    assert usual_error([{0: 0.0}]) == 0.0


def noise(
    rng: np.random.Generator, errors: Mapping[int, Mapping[int, float]] | None, spread: float
) -> dict[int, CellNoise]:
    """Of cells whose rounds have a variance as these errors, and a true log ratio of 0.5."""
    logs = {
        cell: {
            number: 0.5 + float(spread * math.sqrt(error) * rng.normal())
            for number, error in rounds.items()
        }
        for cell, rounds in ERRORS.items()
    }
    return noise_of_cells({"": logs}, lambda *_: "", shares_rounds=False, errors=errors)


ERRORS = {
    cell: dict(enumerate(errors))
    for cell, errors in enumerate(
        np.exp(np.random.default_rng(7).normal(0, 1, (CELLS, 2))).clip(0.5).tolist()
    )
}


def test_with_the_errors_the_truth_is_known_better() -> None:
    """And as well as is said: 95% of the intervals contain it."""
    squares: dict[bool, list[float]] = {False: [], True: []}
    inside: list[bool] = []
    rng = np.random.default_rng(8)
    for _ in range(20):
        for known in (False, True):
            for one in noise(rng, ERRORS if known else None, 0.02).values():
                off = fmean(one.rounds.logs.values()) - 0.5
                squares[known].append(off**2)
                if known:
                    half = t_quantile(one.between.degrees, 0.975)
                    inside.append(abs(off) <= half * math.sqrt(one.between.variance / 2))
    assert np.mean(squares[True]) < 0.85 * np.mean(squares[False])
    assert 0.94 <= np.mean(inside) <= 0.97


def test_without_any_error_all_rounds_are_alike() -> None:
    zeros = {cell: dict.fromkeys(rounds, 0.0) for cell, rounds in ERRORS.items()}
    found = noise(np.random.default_rng(9), zeros, 0.02)
    unknown = noise(np.random.default_rng(9), None, 0.02)
    assert [one[:2] for one in found.values()] == [one[:2] for one in unknown.values()]
    assert {one.within for one in found.values()} == {0.0}
    assert {one.within for one in unknown.values()} == {None}
