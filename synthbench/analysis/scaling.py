"""Scaling laws: the exponent of cost over length, and the length at which two costs cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synthbench.analysis.comparison import CONFIDENCE, Estimate
from synthbench.analysis.moderated_variance import t_quantile

FEWEST_LENGTHS = 3  # two points always lie on a line
DRAWS = 4000

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


def exponent(points: Sequence[tuple[int, float]], confidence: float = CONFIDENCE) -> Exponent:
    """A least-squares fit of log cost on log length; each point is (length, cost) of one round.

    The interval is the t interval of the slope. It is wide for noisy costs, and also for costs that
    do not follow a power law. Raises ValueError for fewer than FEWEST_LENGTHS lengths.
    """
    distinct = len({length for length, _ in points})
    if distinct < FEWEST_LENGTHS:
        raise ValueError(
            f"{distinct} lengths are too few for an exponent; use at least {FEWEST_LENGTHS}"
        )
    x = np.log([length for length, _ in points])
    y = np.log([cost for _, cost in points])
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residuals = y - y.mean() - slope * x
    degrees = len(points) - 2
    error = math.sqrt(float(residuals @ residuals) / degrees / float(x @ x))
    half = t_quantile(degrees, (1 + confidence) / 2) * error
    return Exponent(slope, slope - half, slope + half)


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
    draws = means + errors * _noise(tuple(degrees.tolist()), seed)
    kind: Kind
    if means[-1] > 0:
        kind = "always" if bool(np.all(means > 0)) else "overtakes"
    else:
        kind = "falls behind" if means[0] > 0 else "never"
    if rises is None:
        rises = kind != "falls behind"
    found = float(_last_change(x, means[None, :], rises)[0])
    tail = (1 - confidence) / 2
    changes = _last_change(x, draws, rises)
    low = high = changes[0]
    if (changes != low).any():
        # This method does not interpolate between infinities.
        low, high = np.quantile(changes, [tail, 1 - tail], method="inverted_cdf")
    length = math.exp(found) if math.isfinite(found) else math.nan
    return Crossing(kind, length, math.exp(low), math.exp(high))


@lru_cache(maxsize=64)
def _noise(degrees: tuple[float, ...], seed: int) -> NDArray[np.float64]:
    """DRAWS rows of one draw per t distribution; most series of a run have the same ones."""
    return np.random.default_rng(seed).standard_t(degrees, (DRAWS, len(degrees)))


def _last_change(
    x: NDArray[np.float64], y: NDArray[np.float64], rises: bool
) -> NDArray[np.float64]:
    """The last x at which each row of `y` rises above 0, or ceases to be above 0.

    By linear interpolation. -inf if a row is so from its beginning, +inf if it is not so at its
    end.
    """
    wanted = (y > 0) == rises
    if not wanted[:, -1].any():
        return np.full(len(y), math.inf)
    if wanted.all():
        return np.full(len(y), -math.inf)
    changes = ~wanted[:, :-1] & wanted[:, 1:]
    last = changes.shape[1] - 1 - np.argmax(changes[:, ::-1], axis=1)
    rows = np.arange(len(y))
    before, after = y[rows, last], y[rows, last + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(after != before, -before / (after - before), 0.0)
    found = np.where(changes.any(axis=1), x[last] + share * (x[last + 1] - x[last]), -math.inf)
    return np.where(wanted[:, -1], found, math.inf)
