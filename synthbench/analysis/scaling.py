"""Scaling laws: the exponent of a cost in the length, and the length at which two costs cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from synthbench.analysis.comparison import CONFIDENCE, Estimate
from synthbench.analysis.moderated_variance import t_quantile

FEWEST_LENGTHS = 3  # two leave nothing to judge a line by
DRAWS = 4000

Kind = Literal["overtakes", "falls behind", "always", "never"]


@dataclass(frozen=True)
class Exponent:
    """cost ~ length ** `value`; `low` and `high` bound it at 95%."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Crossing:
    """Where a variant begins to cost less than the baseline, or ceases to.

    "always" and "never" are over the lengths measured; `length` is NaN then. `low` and `high` bound
    the length at 95%: 0 and infinity say that it may lie below or above all lengths measured.
    """

    kind: Kind
    length: float
    low: float
    high: float


def upper_half(lengths: Sequence[int]) -> list[int]:
    """The lengths an exponent is fitted on: the longer half, at least FEWEST_LENGTHS of them.

    At short lengths a step is mostly calls and copies that no length changes, and an exponent over
    all lengths would be a mean of that and of the law.
    """
    known = sorted(set(lengths))
    return known[-max(math.ceil(len(known) / 2), FEWEST_LENGTHS) :]


def exponent(points: Sequence[tuple[int, float]], confidence: float = CONFIDENCE) -> Exponent:
    """Least squares of log cost on log length; each point is (length, cost) of one round.

    The interval is the t interval of the slope. What bends away from a power law is in the
    residuals as noise is: a wide interval says either. Raises ValueError for points at fewer than
    FEWEST_LENGTHS lengths.
    """
    distinct = len({length for length, _ in points})
    if distinct < FEWEST_LENGTHS:
        raise ValueError(f"{distinct} lengths cannot tell an exponent; it takes {FEWEST_LENGTHS}")
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
) -> Crossing:
    """Where the ratio to the baseline passes 1; one estimate (above 1 is better) a length.

    Between the lengths measured, the log ratio is taken as linear in the log length, which is
    exact for two power laws. With several passages the last in the direction from the shortest to
    the longest length counts. The interval is a parametric bootstrap: each estimate is drawn anew
    from its t distribution, and the passage of each draw is taken. Raises ValueError for fewer
    than two lengths.
    """
    if len(lengths) < 2:
        raise ValueError(f"{len(lengths)} length(s) cannot show a passage; it takes two")
    order = np.argsort(lengths)
    x = np.log(np.asarray(lengths, dtype=np.float64)[order])
    means = np.array([estimates[i].log_ratio for i in order])
    errors = np.array([estimates[i].error for i in order])
    # Beyond 1e6 degrees of freedom Student's t is the normal distribution.
    degrees = np.array([min(estimates[i].degrees, 1e6) for i in order])
    noise = np.random.default_rng(seed).standard_t(degrees, (DRAWS, len(x)))
    draws = means + errors * noise
    kind: Kind
    if means[-1] > 0:
        kind = "always" if bool(np.all(means > 0)) else "overtakes"
    else:
        kind = "falls behind" if means[0] > 0 else "never"
    sign = -1 if kind == "falls behind" else 1
    found = float(_last_rise(x, sign * means[None, :])[0])
    tail = (1 - confidence) / 2
    low, high = np.quantile(
        _last_rise(x, sign * draws), [tail, 1 - tail], method="inverted_cdf"
    )  # which does not interpolate between infinities
    length = math.exp(found) if math.isfinite(found) else math.nan
    return Crossing(kind, length, math.exp(low), math.exp(high))


def _last_rise(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each row of `y` last passes from 0 or below to above, linear between the `x`.

    -inf where a row is above 0 throughout, +inf where it is not above at its end.
    """
    rises = (y[:, :-1] <= 0) & (y[:, 1:] > 0)
    last = rises.shape[1] - 1 - np.argmax(rises[:, ::-1], axis=1)
    rows = np.arange(len(y))
    before, after = y[rows, last], y[rows, last + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(after != before, -before / (after - before), 0.0)
    found = np.where(rises.any(axis=1), x[last] + share * (x[last + 1] - x[last]), -math.inf)
    return np.where(y[:, -1] > 0, found, math.inf)
