"""Intervals of quantiles and of ratios: exact bootstraps, and what must not change them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.analysis.calibration import LOW, low_seconds, relative_interval
from synthbench.analysis.intervals import (
    Interval,
    half_width,
    median_interval,
    quantile_interval,
    ratio_interval,
)

quick = settings(max_examples=25)
SAMPLES = st.lists(st.integers(1, 1000).map(float), min_size=1, max_size=12)
SLACK = 3 / math.sqrt(
    4000
)  # three standard errors of a share among 4,000 resamples, times the deviation of one


def quantiles(values: np.ndarray, share: float) -> tuple[float, float]:
    """The exact bootstrap quantile of `share`, give or take the error of the resampling."""
    error = SLACK * math.sqrt(share * (1 - share))
    ends = [max(share - error, 0), min(share + error, 1)]
    low, high = np.quantile(values, ends, method="inverted_cdf")
    return float(low), float(high)


def resamples(n: int) -> np.ndarray:
    """Every list of n of n positions; all are equally likely."""
    return np.array(list(itertools.product(range(n), repeat=n)))


@pytest.mark.parametrize("confidence", [0.95, 0.8, 0.5, 0.38])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_interval_of_a_quantile_is_that_of_every_possible_resample(
    n: int, confidence: float
) -> None:
    for share in (0.5, 0.1, 0.75):
        samples = 3.0 ** np.arange(n)
        possible = np.quantile(samples[resamples(n)], share, axis=1)
        found = quantile_interval(list(samples), share, confidence)
        tail = (1 - confidence) / 2
        low, high = quantiles(possible, tail), quantiles(possible, 1 - tail)
        assert found.value == pytest.approx(np.quantile(samples, share), rel=1e-15)
        assert min(low[0], found.value) <= found.low * (1 + 1e-14) <= low[1] * (1 + 2e-14)
        assert high[0] <= found.high * (1 + 1e-14) <= max(high[1], found.value) * (1 + 2e-14)


@pytest.mark.parametrize("confidence", [0.95, 0.6])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_interval_of_a_ratio_resamples_pairs(n: int, confidence: float) -> None:
    above, below = 7.0 ** np.arange(n), 2.0 + (5 * np.arange(n)) % 7
    drawn = resamples(n)
    ratios = np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1)
    found = ratio_interval(list(above), list(below), confidence)
    tail = (1 - confidence) / 2
    low, high = quantiles(ratios, tail), quantiles(ratios, 1 - tail)
    assert found.value == np.median(above) / np.median(below)
    assert min(low[0], found.value) <= found.low <= low[1]
    assert high[0] <= found.high <= max(high[1], found.value)


def test_what_disturbs_both_of_a_pair_does_not_widen_the_ratio() -> None:
    below = [1.0, 30.0, 2.0, 500.0, 7.0]
    found = ratio_interval([2 * x for x in below], below)
    assert found == pytest.approx((2, 2, 2))
    apart = ratio_interval([2 * x for x in below], below[::-1])
    assert apart.value == 2
    assert apart.high / apart.low > 10


def test_samples_that_are_no_pairs_are_refused() -> None:
    for above, below in (([1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0]), ([], []), ([], [1.0])):
        with pytest.raises(ValueError, match=f"{len(above)} and {len(below)} samples are not"):
            ratio_interval(above, below)
    assert ratio_interval([6.0], [2.0]) == (3, 3, 3)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def by_both(samples: list[float], unit: float = 1.0) -> list[Interval]:
    scaled = [unit * x for x in samples]
    return [median_interval(scaled), ratio_interval(scaled, [1.0] * len(samples))]


@quick
@given(SAMPLES, st.sampled_from([1e-6, 0.5, 3.0, 1e6]))
def test_intervals_scale_with_the_unit(samples: list[float], unit: float) -> None:
    for before, after in zip(by_both(samples), by_both(samples, unit), strict=True):
        assert after == pytest.approx(tuple(unit * end for end in before))


@quick
@given(SAMPLES)
def test_the_order_of_samples_does_not_change_the_median_interval(samples: list[float]) -> None:
    shuffled = sorted(samples, key=lambda x: (x * 7919) % 101)
    assert median_interval(shuffled) == median_interval(samples)


@quick
@given(SAMPLES)
def test_intervals_lie_within_the_samples_and_hold_the_median(samples: list[float]) -> None:
    for found in by_both(samples):
        assert min(samples) <= found.low <= found.value <= found.high <= max(samples)
        assert found.value == np.median(samples)
    for confidence in (0.01, 0.2):
        found = median_interval(samples, confidence)
        assert found.low <= found.value <= found.high
        found = ratio_interval(samples, samples[::-1], confidence)
        assert found.low <= found.value <= found.high


@quick
@given(SAMPLES)
def test_a_higher_confidence_has_a_wider_interval(samples: list[float]) -> None:
    narrow, wide = (median_interval(samples, c) for c in (0.5, 0.99))
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high
    ones = [1.0] * len(samples)
    narrow, wide = (ratio_interval(samples, ones, c) for c in (0.5, 0.99))
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@quick
@given(SAMPLES, SAMPLES)
def test_a_relative_time_is_the_ratio_of_the_low_quantiles(
    samples: list[float], work: list[float]
) -> None:
    found = relative_interval(samples, work)
    assert found.value == pytest.approx(np.quantile(samples, LOW) / np.quantile(work, LOW))
    assert low_seconds(work) == pytest.approx(np.quantile(work, LOW))
    steps, fixed = quantile_interval(samples, LOW), quantile_interval(work, LOW)
    widest = steps.low / fixed.high, steps.high / fixed.low
    assert widest[0] <= found.low * (1 + 1e-12)
    assert found.low <= found.value <= found.high
    assert found.high <= widest[1] * (1 + 1e-12)
    slower = relative_interval([3 * x for x in samples], [3 * x for x in work])
    assert slower == pytest.approx(found)


def test_the_interval_of_a_relative_time_has_the_true_one_in_95_of_100_cases() -> None:
    """Of steps and work that are slower by chance in the same way; the true ratio is 5."""
    rng = np.random.default_rng(0)
    inside = 0.0
    for _ in range(400):
        samples, work = (unit * (1 + rng.exponential(0.1, 60)) for unit in (0.02, 0.004))
        found = relative_interval(list(samples), list(work))
        inside += found.low <= 5 <= found.high
    assert 0.9 <= inside / 400 <= 1


def test_bursts_that_hit_less_than_most_of_the_time_change_nothing() -> None:
    calm = relative_interval([0.02] * 10, [0.004] * 10)
    assert calm == pytest.approx((5, 5, 5))
    assert relative_interval([0.04] * 4 + [0.02] * 6, [0.008] * 7 + [0.004] * 3).value == calm.value


@pytest.mark.parametrize("work", [[], [0.0], [0.1, -0.1]])
def test_times_cannot_be_relative_to_work_that_took_no_time(work: list[float]) -> None:
    with pytest.raises(ValueError, match="expected some, all above 0"):
        relative_interval([1.0], work)


def test_half_of_the_width_is_relative_to_the_median() -> None:
    assert half_width(Interval(4.0, 3.0, 6.0)) == 1.5 / 4
    assert half_width(Interval(4.0, 4.0, 4.0)) == 0
    assert half_width(Interval(0.0, 0.0, 1.0)) == float("inf")
    assert half_width(Interval(-1.0, -2.0, 1.0)) == float("inf")
