"""Confidence intervals of quantiles, and of ratios of medians, by bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 4000


class Interval(NamedTuple):
    """A quantile, or a ratio of two, with its confidence interval."""

    value: float
    low: float
    high: float


def median_interval(samples: Sequence[float], confidence: float = 0.95, seed: int = 0) -> Interval:
    """The median with its percentile bootstrap interval; the same samples give the same interval.

    One sample gives an interval of zero width. Raises ValueError without samples.
    """
    return quantile_interval(samples, 0.5, confidence, seed)


def quantile_interval(
    samples: Sequence[float], share: float, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """The quantile that `share` of the samples are below, as `median_interval`.

    Between two samples it is interpolated, as by `np.quantile`.
    """
    x = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(x)
    if n == 0:
        raise ValueError("no samples to take a quantile of")
    lower, part = _place(n, share)
    drawn = _drawn_ranks(n, share, seed)
    quantiles = x[drawn.lower] * (1 - part) + x[drawn.upper] * part
    tail = (1 - confidence) / 2
    low, high = _quantiles(quantiles, drawn.times, (tail, 1 - tail))
    value = float(x[lower] * (1 - part) + x[min(lower + 1, n - 1)] * part)
    return Interval(value, min(low, value), max(high, value))


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
    """Half the width of an interval over its value; infinite for a value of zero."""
    if not interval.value > 0:
        return float("inf")
    return (interval.high - interval.low) / 2 / interval.value


class _Ranks(NamedTuple):
    """The distinct ranks of the two samples around a quantile, and how often each pair occurs."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    times: NDArray[np.int64]


def _place(n: int, share: float) -> tuple[int, float]:
    """The rank, from 0, of the sample below a quantile, and how far it is to the next one."""
    place = (n - 1) * share
    return int(place), place - int(place)


@lru_cache(maxsize=256)  # of up to 96 kB each
def _drawn_ranks(n: int, share: float, seed: int) -> _Ranks:
    """The ranks around the quantile of RESAMPLES samples, each of n draws with replacement.

    A sample of such a draw is at a rank with a beta distribution. Drawing the rank directly is
    the same bootstrap without RESAMPLES lists of n draws.
    """
    generator = np.random.default_rng(seed)
    below, part = _place(n, share)
    lower = upper = generator.beta(below + 1, n - below, RESAMPLES)
    if part:
        upper = lower + (1 - lower) * generator.beta(1, n - below - 1, RESAMPLES)
    pairs, times = np.unique(_rank(lower, n) * n + _rank(upper, n), return_counts=True)
    return _Ranks(pairs // n, pairs % n, times)


def _rank(share: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    return np.minimum((share * n).astype(np.int64), n - 1)


def _quantiles(
    values: NDArray[np.float64], times: NDArray[np.int64], shares: Sequence[float]
) -> list[float]:
    """`np.quantile` of values that each occur so many times, to the last bit."""
    order = np.argsort(values)
    ends = np.cumsum(times[order])
    found = []
    for share in shares:
        place = (int(ends[-1]) - 1) * share
        below = math.floor(place)
        near = order[np.searchsorted(ends, [below, below + 1], side="right")]
        (start, end), part = values[near].tolist(), place - below
        step = end - start
        found.append(end - step * (1 - part) if part >= 0.5 else start + step * part)
    return found
