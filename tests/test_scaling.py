"""Exponents and crossings of costs whose law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

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
    forth = crossing(LENGTHS, exact([of_laws(n) for n in LENGTHS], 0.1))
    back = crossing(LENGTHS[::-1], exact([of_laws(n) for n in LENGTHS[::-1]], 0.1))
    assert forth == back


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
