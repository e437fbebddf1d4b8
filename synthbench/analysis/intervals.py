"""Statistics of samples, derived when records are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 4000


class Interval(NamedTuple):
    """A median (or a ratio of two) and the interval it lies in at the asked-for confidence."""

    median: float
    low: float
    high: float


def median_interval(samples: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """Median with its percentile-bootstrap interval; the same samples give the same interval.

    One sample gives an interval of no width; no sample raises ValueError.
    """
    x = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(x)
    if n == 0:
        raise ValueError("no samples to take a median of")
    # The middle of n draws with replacement is x at a rank that follows a beta distribution: this
    # draws it outright, which is the bootstrap without making RESAMPLES lists of n samples.
    generator = np.random.default_rng(seed)
    if n % 2:
        lower = upper = generator.beta((n + 1) / 2, (n + 1) / 2, RESAMPLES)
    else:
        lower = generator.beta(n / 2, n / 2 + 1, RESAMPLES)
        upper = lower + (1 - lower) * generator.beta(1, n / 2, RESAMPLES)
    medians = (x[_rank(lower, n)] + x[_rank(upper, n)]) / 2
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    median = float(np.median(x))
    return Interval(median, min(float(low), median), max(float(high), median))


def ratio_interval(
    above: Sequence[float], below: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Median of `above` over that of `below`, which were sampled in turn, with its interval.

    A percentile bootstrap of the turns: what slowed both sides of a turn stays with both. One turn
    gives an interval of no width; none, or sides of different length, raises ValueError.
    """
    x, y = (np.asarray(samples, dtype=np.float64) for samples in (above, below))
    if not 0 < len(x) == len(y):
        raise ValueError(f"{len(x)} and {len(y)} samples are no turns of two sides")
    drawn = np.random.default_rng(seed).integers(len(x), size=(RESAMPLES, len(x)))
    ratios = np.median(x[drawn], axis=1) / np.median(y[drawn], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    ratio = float(np.median(x) / np.median(y))
    return Interval(ratio, min(float(low), ratio), max(float(high), ratio))


def half_width(interval: Interval) -> float:
    """Half of an interval's width, in units of its median; infinite where the median is zero."""
    if not interval.median > 0:
        return float("inf")
    return (interval.high - interval.low) / 2 / interval.median


def _rank(share: np.ndarray, n: int) -> np.ndarray:
    return np.minimum((share * n).astype(int), n - 1)
