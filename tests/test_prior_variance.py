"""The variance that groups have in common, and how far they agree on it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats

from synthbench.analysis.moderated_variance import (
    NO_PRIOR,
    PRIOR_DEGREES,
    SMALLEST,
    Moderated,
    Variances,
    moderated,
    moderated_families,
    prior_variance,
    shared_priors,
    shrunk,
)

STEP = float(PRIOR_DEGREES[1] / PRIOR_DEGREES[0])


def negative_log_likelihood(scale: float, degrees: float, families: list[Variances]) -> float:
    """By scipy's F density; `scale` is that of the only family."""
    return -sum(
        float(np.sum(stats.f.logpdf(np.array(v) / scale, d, degrees) - math.log(scale)))
        for v, d in families
    )


def most_likely_scale(degrees: float, family: Variances) -> tuple[float, float]:
    """The scale of the least negative log likelihood, by a search over its logarithm."""
    low, high = math.log(min(family.values)), math.log(max(family.values))
    found = optimize.minimize_scalar(
        lambda log: negative_log_likelihood(math.exp(log), degrees, [family]),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(found.x), float(found.fun)


def drawn(
    rng: np.random.Generator, number: int, degrees: int, prior_degrees: float, scale: float
) -> NDArray[np.float64]:
    """Sample variances whose true ones have that prior."""
    true = scale * prior_degrees / rng.chisquare(prior_degrees, number)
    return np.asarray(true * rng.chisquare(degrees, number) / degrees)


@pytest.mark.parametrize("seed", range(3))
def test_the_prior_is_the_one_of_the_largest_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    degrees = rng.integers(1, 5, 40).tolist()
    values = [float(drawn(rng, 1, d, 3, 2e-4)[0]) for d in degrees]
    family = Variances(values, degrees)
    scale, prior_degrees = prior_variance(*family)
    expected = optimize.minimize_scalar(
        lambda log: most_likely_scale(math.exp(log), family)[1],
        bounds=(math.log(PRIOR_DEGREES[0]), math.log(PRIOR_DEGREES[-1])),
        method="bounded",
    )
    assert prior_degrees == pytest.approx(math.exp(expected.x), rel=STEP - 1)
    assert scale == pytest.approx(most_likely_scale(prior_degrees, family)[0], rel=1e-5)


def test_families_share_degrees_and_keep_their_own_variance() -> None:
    rng = np.random.default_rng(3)
    families = [
        Variances(drawn(rng, 30, 1, 4, scale).tolist(), [1] * 30) for scale in (1e-4, 9e-4, 4e-2)
    ]
    priors = shared_priors(families)
    (shared,) = {degrees for _, degrees in priors}
    for (scale, _), family in zip(priors, families, strict=True):
        assert scale == pytest.approx(most_likely_scale(shared, family)[0], rel=1e-5)
    at = int(np.argmin(np.abs(PRIOR_DEGREES - shared)))
    total = [
        sum(most_likely_scale(float(PRIOR_DEGREES[each]), family)[1] for family in families)
        for each in (at - 1, at, at + 1)
    ]
    assert total[1] == min(total)


def test_the_shared_variance_is_recovered() -> None:
    """True variances drawn around 2e-4 with 6 degrees of freedom, each seen through 3 rounds."""
    rng = np.random.default_rng(4)
    variance, degrees = prior_variance(drawn(rng, 5000, 2, 6, 2e-4).tolist(), [2] * 5000)
    assert variance == pytest.approx(2e-4, rel=0.1)
    assert degrees == pytest.approx(6, rel=0.25)
    equal = 2e-4 * rng.chisquare(2, 5000) / 2
    variance, degrees = prior_variance(equal.tolist(), [2] * 5000)
    assert variance == pytest.approx(2e-4, rel=0.1)
    assert degrees > 50


def test_two_rounds_of_some_hundred_cells_tell_the_degrees() -> None:
    """What a run has after its first two rounds; from moments, they would be from 1 to infinite."""
    rng = np.random.default_rng(5)
    found = [
        shared_priors([Variances(drawn(rng, 84, 1, 4, 2e-4).tolist(), [1] * 84) for _ in range(5)])[
            0
        ][1]
        for _ in range(50)
    ]
    assert 2 < min(found) < 4 < max(found) < 12
    assert np.median(found) == pytest.approx(4, rel=0.2)


def test_equal_groups_have_their_weighted_mean_as_prior() -> None:
    variance, degrees = prior_variance([1.0, 1.2, 0.9], [1, 2, 9])
    assert degrees == math.inf
    assert variance == pytest.approx((1.0 + 2 * 1.2 + 9 * 0.9) / 12)
    assert moderated([1.0, 1.2, 0.9], [1, 2, 9])[1] == Moderated(variance, 12)


def test_groups_without_spread_say_nothing_of_the_prior() -> None:
    assert prior_variance([1.0, 2.0, 0.0, 0.0], [2, 2, 2, 2]) == NO_PRIOR
    with_zeros = prior_variance([0.0, 1.0, 0.0, 30.0, 0.01], [7, 2, 7, 3, 4])
    assert with_zeros == prior_variance([1.0, 30.0, 0.01], [2, 3, 4])
    few, many = Variances([1.0, 2.0], [2, 2]), Variances([1.0, 30.0, 0.01], [2, 3, 4])
    assert shared_priors([few, many]) == [NO_PRIOR, prior_variance(*many)]
    assert shared_priors([]) == []


def test_two_rounds_that_are_alike_by_chance_do_not_decide() -> None:
    """Of one degree of freedom, a tiny variance is as probable from a large one as from a small."""
    rng = np.random.default_rng(6)
    values = (1e-4 * rng.chisquare(1, 40)).tolist()
    least = values.index(min(values))
    found = []
    for size in (1e-8, 1e-10, 1e-300):
        values[least] = size
        found.append(prior_variance(values, [1] * 40))
    assert found[1] == pytest.approx(found[0], rel=1e-3)
    assert found[2] == found[1]  # below SMALLEST of the median


def test_what_is_rounding_is_as_large_as_the_smallest_that_is_not() -> None:
    tiny = prior_variance([1.0, 30.0, 1e-30], [2, 3, 4])
    assert tiny == prior_variance([1.0, 30.0, SMALLEST * 1.0], [2, 3, 4])


def test_each_variance_is_shrunk_towards_that_of_its_family() -> None:
    families = [Variances([1.0, 30.0, 0.01], [2, 3, 4]), Variances([5.0], [2])]
    (scale, degrees), _ = shared_priors(families)
    first, second = moderated_families(families)
    assert math.isfinite(degrees)
    assert first[1] == pytest.approx(((degrees * scale + 3 * 30) / (degrees + 3), degrees + 3))
    assert second == [Moderated(5.0, 2)]  # alone: as it is
    assert shrunk(30.0, 3, (2.0, math.inf)) == 2.0


@given(
    st.lists(st.tuples(st.floats(1e-12, 1e6), st.integers(1, 12)), min_size=3, max_size=12),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=50)
def test_the_unit_does_not_matter(groups: list[tuple[float, int]], unit: float) -> None:
    values, degrees = ([*column] for column in zip(*groups, strict=True))
    scale, prior_degrees = prior_variance(values, degrees)
    scaled = prior_variance([unit * value for value in values], degrees)
    assert min(values) * (1 - 1e-9) <= scale
    assert scale <= max(values) * (1 + 1e-9)
    # Two neighbours of the same likelihood may change places.
    assert scaled[1] == pytest.approx(prior_degrees, rel=2 * (STEP - 1))
    if scaled[1] == prior_degrees:
        assert scaled[0] == pytest.approx(unit * scale, rel=1e-6)


def test_variances_of_which_most_are_almost_zero_have_a_prior() -> None:
    """A ratio of 0.5 to the smallest number would not be finite, and a warning is an error."""
    variance, degrees = prior_variance([0.5, 5e-324, 5e-324], [1] * 3)
    assert 0 < variance <= 0.5 and degrees > 0
