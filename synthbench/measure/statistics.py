"""Statistics of samples, derived when records are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 4000


class Interval(NamedTuple):
    """A median and the interval it lies in at the asked-for confidence."""

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


def half_width(interval: Interval) -> float:
    """Half of an interval's width, in units of its median; infinite where the median is zero."""
    if not interval.median > 0:
        return float("inf")
    return (interval.high - interval.low) / 2 / interval.median


def _rank(share: np.ndarray, n: int) -> np.ndarray:
    return np.minimum((share * n).astype(int), n - 1)
