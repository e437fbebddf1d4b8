"""Noise floors: coverage on made-up noise, and one bad twin that widens only its own group."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from synthbench.analysis.noise_floor import NoiseFloor, noise_floors


def test_a_floor_is_a_t_quantile_of_the_spread() -> None:
    floor = NoiseFloor(spread=0.04, degrees=6)
    assert floor.ratio(4) == pytest.approx(math.exp(stats.t.ppf(0.975, 6) * 0.04 / 2))
    assert floor.ratio(1, share=0.5) == pytest.approx(math.exp(stats.t.ppf(0.75, 6) * 0.04))
    known = NoiseFloor(0.04, math.inf)
    assert known.ratio(1) == pytest.approx(math.exp(1.959964 * 0.04), rel=1e-6)


def test_few_groups_stand_for_themselves() -> None:
    """Two groups cannot tell how much groups differ; the true log ratio is 0, not their mean."""
    found = noise_floors({"a": (0.03, -0.01), "b": (0.1,)})
    assert found.of_groups["a"] == NoiseFloor(pytest.approx(math.sqrt(0.0005)), 2)  # type: ignore[arg-type]
    assert found.of_groups["b"] == NoiseFloor(pytest.approx(0.1), 1)  # type: ignore[arg-type]
    assert found.of_others == found.of_groups["b"]  # the noisier one
    nothing = noise_floors({"a": ()})
    assert (dict(nothing.of_groups), nothing.of_others) == ({}, None)


def test_equal_groups_share_all_they_know() -> None:
    """Variances that differ no more than by chance are one."""
    values = dict.fromkeys(range(20), (0.02, -0.02))
    found = noise_floors(values)
    assert set(found.of_groups.values()) == {found.of_others}
    assert found.of_others == NoiseFloor(pytest.approx(0.02), 40)  # type: ignore[arg-type]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_bad_twin_widens_only_its_own_group(rounds: int) -> None:
    rng = np.random.default_rng(5)
    calm = {n: tuple(rng.normal(0, 0.02, rounds)) for n in range(20)}
    before, after = noise_floors(calm), noise_floors(calm | {"bad": (0.4,) * rounds})
    assert before.of_others is not None and after.of_others is not None
    assert after.of_groups["bad"].ratio(rounds) > 1.4
    for group in calm:
        assert after.of_groups[group] == before.of_groups[group]
    assert after.of_others == before.of_others


@pytest.mark.parametrize("differing", [False, True])
@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_another_such_ratio_lies_within_the_floor_in_95_of_100_cases(
    rounds: int, differing: bool
) -> None:
    """Gaussian noise, equal in all groups or with variances drawn around 4e-4."""
    rng = np.random.default_rng(6)
    inside = total = 0
    for _ in range(150):
        variances = 4e-4 * (8 / rng.chisquare(8, 10) if differing else np.ones(10))
        twins = {n: tuple(rng.normal(0, math.sqrt(v), rounds)) for n, v in enumerate(variances)}
        again = [rng.normal(0, math.sqrt(v), rounds).mean() for v in variances]
        floors = noise_floors(twins).of_groups
        inside += sum(abs(a) <= math.log(floors[n].ratio(rounds)) for n, a in enumerate(again))
        total += len(again)
    assert 0.92 <= inside / total <= 0.98


@given(st.lists(st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=4), min_size=1, max_size=12))
@example([[1e-38], [0.0, 0.5], [1e-94], [0.0, 0.5]])  # two alike, of which one may stand alone
def test_the_order_and_the_sign_of_twins_change_nothing(values: list[list[float]]) -> None:
    found = noise_floors(dict(enumerate(values)))
    mirrored = noise_floors(
        {n: [-v for v in values[n][::-1]] for n in reversed(range(len(values)))}
    )
    for group, floor in found.of_groups.items():
        other = mirrored.of_groups[group]
        assert other.spread == pytest.approx(floor.spread)
        assert other.degrees == pytest.approx(floor.degrees)
