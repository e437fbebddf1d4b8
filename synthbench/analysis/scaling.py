"""Scaling laws: the exponent of cost over length, and the length at which two costs cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthbench.analysis.comparison import CONFIDENCE, Estimate
from synthbench.analysis.moderated_variance import t_quantile

FEWEST_LENGTHS = 3  # two points always lie on a line
DRAWS = 4000

Points = Sequence[tuple[int, float]]  # (length, cost)
Kind = Literal["overtakes", "falls behind", "always", "never"]


@dataclass(frozen=True)
class Exponent:
    """cost ~ length ** `value`, with its 95% confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Crossing:
    """The length at which a variant starts, or stops, to cost less than the baseline.

    "always" and "never" refer to the measured lengths; `length` is NaN then. `low` and `high`: the
    95% confidence interval; 0 and infinity mean below and above all measured lengths.
    """

    kind: Kind
    length: float
    low: float
    high: float


def upper_half(lengths: Sequence[int]) -> list[int]:
    """The lengths for the fit of an exponent: the longer half, at least FEWEST_LENGTHS.

    At short lengths, constant overhead dominates a step, which would lower the exponent.
    """
    known = sorted(set(lengths))
    return known[-max(math.ceil(len(known) / 2), FEWEST_LENGTHS) :]


def exponent(points: Points, confidence: float = CONFIDENCE) -> Exponent:
    """A least-squares fit of log cost on log length; each point is (length, cost) of one round.

    The interval is the t interval of the slope. It is wide for noisy costs, and also for costs that
    do not follow a power law. Raises ValueError for fewer than FEWEST_LENGTHS lengths.
    """
    return exponents([points], confidence)[0]


def exponents(series: Sequence[Points], confidence: float = CONFIDENCE) -> list[Exponent]:
    """`exponent` of each series; those with the same lengths are fitted together, for speed."""
    by_lengths: dict[tuple[int, ...], list[int]] = {}
    for place, points in enumerate(series):
        by_lengths.setdefault(tuple([length for length, _ in points]), []).append(place)
    found: dict[int, Exponent] = {}
    for lengths, places in by_lengths.items():
        if (distinct := len(set(lengths))) < FEWEST_LENGTHS:
            raise ValueError(
                f"{distinct} lengths are too few for an exponent; use at least {FEWEST_LENGTHS}"
            )
        x = np.log(lengths)
        x -= x.mean()
        square = float(x @ x)
        y = np.log([[cost for _, cost in series[place]] for place in places])
        slopes = y @ x / square
        residuals = y - y.mean(axis=1, keepdims=True) - slopes[:, None] * x
        degrees = len(lengths) - 2
        errors = np.sqrt(np.square(residuals).sum(axis=1) / degrees / square)
        halves = t_quantile(degrees, (1 + confidence) / 2) * errors
        for place, slope, half in zip(places, slopes.tolist(), halves.tolist(), strict=True):
            found[place] = Exponent(slope, slope - half, slope + half)
    return [found[place] for place in range(len(series))]


def crossing(
    lengths: Sequence[int],
    estimates: Sequence[Estimate],
    confidence: float = CONFIDENCE,
    seed: int = 0,
    rises: bool | None = None,
) -> Crossing:
    """The length at which the ratio to the baseline crosses 1; one estimate per length.

    A ratio above 1 is better. Between the measured lengths, the log ratio is interpolated linearly
    in the log length, which is exact for two power laws. Of several crossings, the one at the
    longest length counts. The interval is a parametric bootstrap: each draw samples every estimate
    from its t distribution and has its own crossing. Raises ValueError for fewer than two lengths.

    `rises`: whether length and interval are of the change to costing less, or to costing more; by
    default, of the one that the kind names. To compare two series, both need the same.
    """
    if len(lengths) < 2:
        raise ValueError(f"{len(lengths)} length(s) are too few for a crossing; use at least two")
    order = np.argsort(lengths)
    x = np.log(np.asarray(lengths, dtype=np.float64)[order])
    means = np.array([estimates[i].log_ratio for i in order])
    errors = np.array([estimates[i].error for i in order])
    # Beyond 1e6 degrees of freedom Student's t is the normal distribution.
    degrees = np.array([min(estimates[i].degrees, 1e6) for i in order])
    noise = _noise(tuple(degrees.tolist()), seed)
    kind: Kind
    if means[-1] > 0:
        kind = "always" if bool(np.all(means > 0)) else "overtakes"
    else:
        kind = "falls behind" if bool(np.any(means > 0)) else "never"
    if rises is None:
        rises = kind != "falls behind"
    found = _last_change(x.tolist(), means.tolist(), rises)
    tail = (1 - confidence) / 2
    near = _around_last_change(means, errors, noise, rises)
    low = high = found
    if errors[near].any() and near.stop - near.start > 1:
        draws = means[near, None] + errors[near, None] * noise.draws[near]
        low, high = _quantiles(_last_changes(x[near], draws, rises), (tail, 1 - tail))
    length = math.exp(found) if math.isfinite(found) else math.nan
    return Crossing(kind, length, math.exp(low), math.exp(high))


def _quantiles(values: NDArray[np.float64], levels: Sequence[float]) -> list[float]:
    """Quantiles that are values themselves: numpy's "inverted_cdf", in a quarter of its time.

    Between infinities nothing can be interpolated.
    """
    places = [max(math.ceil(level * len(values)) - 1, 0) for level in levels]
    parted = np.partition(values, places)
    return [float(parted[place]) for place in places]


class _Noise(NamedTuple):
    """A row of DRAWS draws per t distribution, and the least and the greatest of each."""

    draws: NDArray[np.float64]
    ends: NDArray[np.float64]


@lru_cache(maxsize=64)
def _noise(degrees: tuple[float, ...], seed: int) -> _Noise:
    """The noise of a series; most series of a run have the same."""
    draws = np.random.default_rng(seed).standard_t(degrees, (DRAWS, len(degrees)))
    ends = np.stack([draws.min(axis=0), draws.max(axis=0)])
    return _Noise(np.ascontiguousarray(draws.T), ends)


def _around_last_change(
    means: NDArray[np.float64], errors: NDArray[np.float64], noise: _Noise, rises: bool
) -> slice:
    """The lengths on which the last change of a draw depends; mostly two or one of them.

    What is before a length that is not as wanted in any draw does not matter, and neither does what
    is after the first of the lengths from which on all are as wanted in every draw.
    """
    ends = (means + errors * noise.ends > 0) == rises
    never, surely = ~ends.any(axis=0), ends.all(axis=0)
    first = int(np.flatnonzero(never)[-1]) if never.any() else 0
    doubtful = np.flatnonzero(~surely)
    last = min(int(doubtful[-1]) + 1, len(means) - 1) if len(doubtful) else 0
    return slice(first, last + 1)


def _last_change(x: Sequence[float], y: Sequence[float], rises: bool) -> float:
    """The last x at which a series rises above 0, or ceases to be above 0.

    By linear interpolation. -inf if it is so from its beginning, +inf if it is not so at its end.
    """
    if (y[-1] > 0) != rises:
        return math.inf
    for n in range(len(x) - 2, -1, -1):
        if (y[n] > 0) != rises:
            return x[n] + -y[n] / (y[n + 1] - y[n]) * (x[n + 1] - x[n])
    return -math.inf


def _last_changes(
    x: NDArray[np.float64], y: NDArray[np.float64], rises: bool
) -> NDArray[np.float64]:
    """`_last_change` of many series; `y` is [x, series]."""
    wanted = y > 0 if rises else y <= 0
    found = np.full(y.shape[1], -math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):  # only where nothing changes
        for n in range(len(x) - 1):
            at = x[n] + -y[n] / (y[n + 1] - y[n]) * (x[n + 1] - x[n])
            found = np.where(wanted[n] < wanted[n + 1], at, found)
    return np.where(wanted[-1], found, math.inf)
