"""Exponents and crossings of costs whose law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from synthbench.analysis.comparison import Estimate
from synthbench.analysis.scaling import crossing, exponent, upper_half

LENGTHS = [128, 256, 512, 1024, 2048]


@pytest.mark.parametrize("power", [1, 2])
def test_exact_power_laws_are_recovered(power: int) -> None:
    fitted = exponent([(n, 3e-6 * n**power) for n in LENGTHS])
    assert (fitted.value, fitted.low, fitted.high) == pytest.approx((power, power, power))


@pytest.mark.parametrize("power", [1, 2])
def test_the_interval_of_a_noisy_law_covers_its_exponent(power: int) -> None:
    rng = np.random.default_rng(0)
    covered, widths = 0, []
    for _ in range(400):
        points = [
            (n, float(1e-6 * n**power * np.exp(rng.normal(0, 0.03))))
            for n in upper_half(LENGTHS)
            for _ in range(3)
        ]
        fitted = exponent(points)
        covered += fitted.low <= power <= fitted.high
        widths.append(fitted.high - fitted.low)
    assert 0.90 <= covered / 400 <= 0.99
    assert np.median(widths) < 0.15


def test_a_bent_curve_has_a_wide_interval() -> None:
    """Linear at first, quadratic in the end: no one exponent is right, and the interval says so."""
    fitted = exponent([(n, 1e-3 * n + 1e-6 * n**2) for n in LENGTHS])
    assert fitted.high - fitted.low > 0.3


def test_fits_are_made_on_the_longer_half() -> None:
    assert upper_half([128, 2048, 512, 256, 1024, 512]) == [512, 1024, 2048]
    assert upper_half([1, 2, 4, 8, 16, 32, 64, 128]) == [16, 32, 64, 128]
    assert upper_half([1, 2]) == [1, 2]
    with pytest.raises(ValueError, match="2 lengths are too few"):
        exponent([(1, 1.0), (2, 2.0), (2, 2.1)])


def exact(log_ratios: list[float], error: float = 0.0) -> list[Estimate]:
    return [Estimate(r, error, 10, 3) for r in log_ratios]


def of_laws(n: int) -> float:
    """Log ratio of 0.01 n^2 (the baseline) to 3 n: even at 300, better above."""
    return math.log(0.01 * n**2 / (3 * n))


def test_the_crossing_of_two_power_laws_is_recovered() -> None:
    found = crossing(LENGTHS, exact([of_laws(n) for n in LENGTHS]))
    assert found.kind == "overtakes"
    assert (found.length, found.low, found.high) == pytest.approx((300, 300, 300))
    falls = crossing(LENGTHS, exact([-of_laws(n) for n in LENGTHS]))
    assert falls.kind == "falls behind"
    assert (falls.length, falls.low, falls.high) == pytest.approx((300, 300, 300))


def test_the_order_of_lengths_changes_nothing() -> None:
    estimates = [Estimate(of_laws(n), 0.1 * i, i, 3) for i, n in enumerate(LENGTHS, start=1)]
    assert crossing(LENGTHS, estimates) == crossing(LENGTHS[::-1], estimates[::-1])


def test_the_interval_of_a_crossing_covers_it() -> None:
    rng = np.random.default_rng(1)
    covered, spans = 0, []
    for _ in range(200):
        rounds = np.array([of_laws(n) for n in LENGTHS]) + rng.normal(0, 0.05, (5, 5))
        errors = rounds.std(axis=0, ddof=1) / math.sqrt(5)
        estimates = [
            Estimate(float(mean), float(error), 4, 5)
            for mean, error in zip(rounds.mean(axis=0), errors, strict=True)
        ]
        found = crossing(LENGTHS, estimates)
        assert found.kind == "overtakes"
        covered += found.low <= 300 <= found.high
        spans.append(found.high / found.low)
    assert covered / 200 >= 0.90
    assert np.median(spans) < 1.3


def test_what_never_crosses_says_so_and_how_surely() -> None:
    always = crossing(LENGTHS, exact([0.5] * 5, 0.001))
    assert (always.kind, always.low, always.high) == ("always", 0, 0)
    never = crossing(LENGTHS, exact([-0.5] * 5, 0.001))
    assert (never.kind, never.low, never.high) == ("never", math.inf, math.inf)
    assert math.isnan(always.length) and math.isnan(never.length)
    unsure = crossing(LENGTHS, exact([0.01] * 5, 0.1))
    assert (unsure.kind, unsure.low, unsure.high) == ("always", 0, math.inf)


def test_the_last_passage_counts() -> None:
    found = crossing(LENGTHS, exact([0.2, -0.1, 0.1, -0.1, 0.1]))
    assert found.kind == "overtakes"
    assert found.length == pytest.approx(1024 * math.sqrt(2))
    with pytest.raises(ValueError, match="use at least two"):
        crossing([128], exact([0.1]))


# --- exact values -------------------------------------------------------------------------------


def test_an_exponent_is_the_regression_of_the_logarithms() -> None:
    points = [(128, 1.0), (128, 1.2), (256, 1.9), (512, 5.0), (1024, 7.5), (1024, 9.0)]
    expected = stats.linregress(*np.log(np.array(points).T))
    for confidence in (0.95, 0.5):
        found = exponent(points, confidence)
        half = stats.t.ppf((1 + confidence) / 2, 6 - 2) * expected.stderr
        assert found.value == pytest.approx(expected.slope)
        assert (found.low, found.high) == pytest.approx(
            (expected.slope - half, expected.slope + half)
        )


@given(
    unit=st.floats(1e-6, 1e6),
    stretch=st.integers(2, 9),
    costs=st.lists(st.floats(0.5, 2.0), min_size=3, max_size=6),
)
@settings(max_examples=25)
def test_units_do_not_change_an_exponent(unit: float, stretch: int, costs: list[float]) -> None:
    points = [(2**i, cost) for i, cost in enumerate(costs)]
    plain = exponent(points)
    other = exponent([(stretch * n, unit * cost) for n, cost in points[::-1]])
    assert (other.value, other.low, other.high) == pytest.approx(
        (plain.value, plain.low, plain.high), abs=1e-6
    )


@pytest.mark.parametrize(
    ("count", "used"), [(3, 3), (4, 3), (5, 3), (6, 3), (7, 4), (8, 4), (9, 5)]
)
def test_the_longer_half_is_rounded_up_and_has_at_least_three(count: int, used: int) -> None:
    lengths = [2**i for i in range(count)]
    assert upper_half(lengths[::-1] * 2) == lengths[-used:]


@pytest.mark.parametrize(
    ("log_ratios", "kind", "length"),
    [
        ([0.1, 0.2, 0.3], "always", None),
        ([-0.3, -0.2, -0.1], "never", None),
        ([-0.3, 0.1, -0.1], "falls behind", 100 * 10**0.5),  # only in between it is better
        ([-0.1, 0.1, 0.3], "overtakes", 10 * 10**0.5),
        ([-0.3, -0.1, 0.3], "overtakes", 100 * 10**0.25),
        ([0.1, -0.3, 0.1], "overtakes", 100 * 10**0.75),
        ([0.1, -0.1, -0.3], "falls behind", 10 * 10**0.5),
        ([0.1, 0.3, -0.1], "falls behind", 100 * 10**0.75),
        ([0.1, -0.3, -0.1], "falls behind", 10 * 10**0.25),
        ([0.0, 0.0, 0.1], "overtakes", 100),  # equal is not better
        ([0.1, 0.2, 0.0], "falls behind", 1000),
        ([0.0, 0.0, 0.0], "never", None),
    ],
)
def test_each_kind_of_crossing_is_where_the_lines_cross(
    log_ratios: list[float], kind: str, length: float | None
) -> None:
    lengths = [10, 100, 1000]
    found = crossing(lengths, exact(log_ratios))
    assert found.kind == kind
    if length is None:
        assert math.isnan(found.length)
    else:
        assert (found.length, found.low, found.high) == pytest.approx((length, length, length))


@pytest.mark.parametrize("degrees", [3.0, math.inf])
@pytest.mark.parametrize("confidence", [0.95, 0.5])
def test_the_interval_of_a_crossing_is_that_of_the_one_uncertain_ratio(
    degrees: float, confidence: float
) -> None:
    """The ratio at 10 is -1, that at 1000 is 1 +- t * 0.1: 1 at share 1 / (1 + ratio)."""
    ends = [Estimate(-1.0, 0.0, 5, 3), Estimate(1.0, 0.1, degrees, 3)]
    found = crossing([10, 1000], ends, confidence)
    half = stats.t.ppf((1 + confidence) / 2, min(degrees, 1e6)) * 0.1
    for end, ratio in ((found.low, 1 + half), (found.high, 1 - half)):
        assert math.log(end / 10) == pytest.approx(math.log(100) / (1 + ratio), rel=0.02)
    assert found.low < found.length < found.high
    assert found.length == pytest.approx(100)


def test_an_end_beyond_the_measured_lengths_is_open() -> None:
    rising = crossing([10, 1000], [Estimate(-1.0, 0.0, 5, 3), Estimate(0.1, 1.0, math.inf, 3)])
    assert 10 < rising.low < 1000
    assert rising.high == math.inf
    early = crossing([10, 1000], [Estimate(-0.1, 1.0, math.inf, 3), Estimate(1.0, 0.0, 5, 3)])
    assert (early.low, 10 < early.high < 1000) == (0, True)
