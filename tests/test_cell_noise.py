"""The noise of cells: what all cells of a group share is no part of it; known truths are found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthbench.analysis.cell_noise import (
    FEWEST_CELLS,
    MOST_ALIKE,
    CellNoise,
    combined,
    noise_of_cells,
    round_effects,
)
from synthbench.analysis.comparison import Comparison, estimate
from synthbench.analysis.moderated_variance import Moderated
from synthbench.analysis.multiple_testing import holm
from synthbench.report.data.grid import Grid, Key
from tests import test_tables as made

CELLS = 22
C = TypeVar("C")


def cells_of(logs: NDArray[np.float64]) -> dict[int, dict[int, float]]:
    """Cell -> round -> log time, from [cell, round]."""
    return {cell: dict(enumerate(own.tolist())) for cell, own in enumerate(logs)}


def one_family(*_: object) -> str:
    return ""


def between(noise: Mapping[C, CellNoise]) -> dict[C, Moderated]:
    return {cell: one.between for cell, one in noise.items()}


def noise_of(logs: NDArray[np.float64]) -> dict[int, Moderated]:
    return between(noise_of_cells({"group": cells_of(logs)}, one_family))


@settings(max_examples=25)
@given(st.integers(2, 5), st.integers(0, 100), st.floats(-3, 3))
def test_what_a_round_adds_to_all_cells_is_no_noise(rounds: int, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, 0.02, (CELLS, rounds))
    changed = logs + size * rng.normal(size=rounds) + rng.normal(size=(CELLS, 1))
    before, after = noise_of(logs), noise_of(changed)
    for cell in range(CELLS):
        assert after[cell] == pytest.approx(before[cell], rel=1e-6)


def test_the_effect_of_a_round_is_what_most_cells_have() -> None:
    logs = np.zeros((CELLS, 3))
    logs[:, 1] = 0.2
    logs[:4, 1] = 5.0  # disturbed
    found = round_effects(cells_of(logs))
    assert found[1] - found[0] == pytest.approx(0.2)
    assert found[2] == found[0]


def test_equal_cells_share_their_noise() -> None:
    noise = noise_of(np.random.default_rng(0).normal(0, 0.05, (200, 3)))
    spreads = [math.sqrt(one.variance) for one in noise.values()]
    assert np.median(spreads) == pytest.approx(0.05, rel=0.15)
    assert max(spreads) < 2 * min(spreads)  # of the 3 rounds alone, one is 93 times another
    (degrees,) = {one.degrees for one in noise.values()}
    assert degrees == pytest.approx(MOST_ALIKE + 2, rel=0.03)


def test_a_noisy_cell_is_known_to_be_noisy() -> None:
    spreads = np.full((100, 1), 0.01)
    spreads[:5] = 0.3
    noise = noise_of(np.random.default_rng(1).normal(0, 1, (100, 8)) * spreads)
    noisy = [math.sqrt(noise[cell].variance) for cell in range(5)]
    assert min(noisy) > 10 * math.sqrt(float(np.median([noise[n].variance for n in range(5, 100)])))


def test_families_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    groups = {
        (name, mode): {(name, mode, cell): logs for cell, logs in cells_of(rows).items()}
        for name, spread in (("calm", 0.001), ("noisy", 0.1))
        for mode in ("forward", "train")
        for rows in [rng.normal(0, spread, (CELLS, 4))]
    }
    noise = between(noise_of_cells(groups, lambda group, _: group[0]))
    for (name, _, _), one in noise.items():
        assert math.sqrt(one.variance) == pytest.approx(
            {"calm": 0.001, "noisy": 0.1}[name], rel=0.7
        )


def test_few_cells_and_single_rounds_have_no_noise() -> None:
    logs = np.random.default_rng(3).normal(size=(CELLS, 3))
    assert noise_of(logs[: FEWEST_CELLS - 1]) == {}
    assert len(noise_of(logs[:FEWEST_CELLS])) == FEWEST_CELLS
    assert noise_of(logs[:, :1]) == {}
    cells = cells_of(logs)
    cells[0] = {0: 1.0}
    assert set(noise_of_cells({"": cells}, one_family)) == set(range(1, CELLS))


def test_a_round_of_few_cells_counts_as_their_noise() -> None:
    """What the machine did to all of them there is not known."""
    cells = cells_of(np.random.default_rng(4).normal(0, 0.01, (CELLS, 2)))
    before = between(noise_of_cells({"": cells}, one_family))
    for cell in (0, 1):
        cells[cell][2] = cells[cell][0] + 1.0
    after = between(noise_of_cells({"": cells}, one_family))
    assert 2 not in round_effects(cells)
    assert after[0].variance > 10 * before[0].variance


def test_the_noise_of_two_sides_is_added() -> None:
    sides = Moderated(3.0, 5.0), Moderated(1.0, math.inf)
    assert combined(sides) == (4.0, 5.0)
    (found,) = estimate([Comparison((0.1, 0.3), 0.0, sides=sides)])
    assert (found.log_ratio, found.error, found.degrees) == pytest.approx((0.2, math.sqrt(2), 5))
    (found,) = estimate([Comparison((0.1, 0.3), 4.0, sides=sides)])
    assert found.error == pytest.approx(math.sqrt(8))  # no less than within a round


@pytest.mark.parametrize("degrees", [1.5, 6.0, 1e6])
@pytest.mark.parametrize("rounds", [2, 3])
def test_tables_have_a_false_verdict_in_5_of_100_cases_at_most(rounds: int, degrees: float) -> None:
    """Also where the noise of cells differs, and where rounds differ by more than their noise.

    Of 100 tables, 10 with a false verdict would still be likely if 5 in 100 had one.
    """
    rng, inside, false = np.random.default_rng(rounds), 0, 0
    for _ in range(100):
        groups = []
        for _ in range(4):
            spreads = 0.02 * np.sqrt(degrees / rng.chisquare(degrees, (CELLS, 1)))
            groups.append(rng.normal(0, 0.1, rounds) + spreads * rng.normal(size=(CELLS, rounds)))
        cells = {
            group: {(group, cell): dict(enumerate(own.tolist())) for cell, own in enumerate(logs)}
            for group, logs in enumerate(groups)
        }
        noise = between(noise_of_cells(cells, one_family))
        found = estimate(
            [
                Comparison(tuple(logs[0] - logs[n]), 0.0, sides=(noise[group, n], noise[group, 0]))
                for group, logs in enumerate(groups)
                for n in range(1, CELLS)
            ]
        )
        inside += sum(one.interval()[0] <= 1 <= one.interval()[1] for one in found)
        false += min(holm([one.p_value for one in found])) < 0.05
    assert inside / (100 * len(found)) >= 0.93
    assert false <= 10


def test_a_grid_takes_the_noise_of_a_ratio_from_its_cells() -> None:
    seconds = np.exp(np.random.default_rng(5).normal(-5, 0.1, (FEWEST_CELLS, 3)))
    names = ["V", *(f"FR(rank={n})" for n in range(1, FEWEST_CELLS))]
    found = [
        made.record(made.cell(name, "torch", "train", 64), float(time), round=number)
        for name, own in zip(names, seconds, strict=True)
        for number, time in enumerate(own)
    ]
    keys = [Key("", name, "torch", "train", 64) for name in names]
    noise = noise_of(np.log(seconds))
    for number, key in enumerate(keys[1:], start=1):
        compared = Grid(found, names).compare(key, keys[0], "V")
        assert isinstance(compared, Comparison)
        for side, expected in zip(compared.sides, (noise[number], noise[0]), strict=True):
            assert side == pytest.approx(expected)
    few = Grid(found[:-3], names).compare(keys[1], keys[0], "V")
    assert isinstance(few, Comparison)
    assert few.sides == ()
