"""Confidence intervals of medians, and of ratios of medians, by bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 4000


class Interval(NamedTuple):
    """A median, or a ratio of two medians, with its confidence interval."""

    median: float
    low: float
    high: float


def median_interval(samples: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """The median with its percentile bootstrap interval; the same samples give the same interval.

    One sample gives an interval of zero width. Raises ValueError without samples.
    """
    x = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(x)
    if n == 0:
        raise ValueError("no samples to take a median of")
    # The median of n draws with replacement is x at a rank with a beta distribution. Drawing the
    # rank directly is the same bootstrap without RESAMPLES lists of n samples.
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
    """The median of `above` over that of `below`, which were sampled alternately, in pairs.

    The interval is a percentile bootstrap of the pairs, so that a disturbance of a pair affects
    both medians. One pair gives an interval of zero width. Raises ValueError without samples, or
    for different numbers of samples.
    """
    x, y = (np.asarray(samples, dtype=np.float64) for samples in (above, below))
    if not 0 < len(x) == len(y):
        raise ValueError(f"{len(x)} and {len(y)} samples are not equal-length paired samples")
    drawn = np.random.default_rng(seed).integers(len(x), size=(RESAMPLES, len(x)))
    ratios = np.median(x[drawn], axis=1) / np.median(y[drawn], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    ratio = float(np.median(x) / np.median(y))
    return Interval(ratio, min(float(low), ratio), max(float(high), ratio))


def half_width(interval: Interval) -> float:
    """Half the width of an interval over its median; infinite for a median of zero."""
    if not interval.median > 0:
        return float("inf")
    return (interval.high - interval.low) / 2 / interval.median


def _rank(share: np.ndarray, n: int) -> np.ndarray:
    return np.minimum((share * n).astype(int), n - 1)
