"""The ratio of two steps that were timed in turn in one process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from synthbench.analysis.intervals import Interval

# What disturbs a step only adds time. The faster half of the steps met less of it, and their mean
# uses more of them than a quantile does.
SHARE = 0.5
FEWEST = 2  # of several times: one alone would have no error
NORMAL_95 = 1.959964  # half the width of a 95% confidence interval, in standard errors


class FastMean(NamedTuple):
    """The mean of the fastest SHARE of some times, and its standard error; NaN: not known."""

    value: float
    error: float


def fast_mean(seconds: Sequence[float]) -> FastMean:
    """The mean of the fastest SHARE of times, of FEWEST at least; raises ValueError without times.

    The standard error is that of a mean trimmed on one side, from the winsorized times (Tukey and
    McLaughlin 1963), which are taken as independent. One time says nothing of it.
    """
    if not seconds:
        raise ValueError("expected times, and got none")
    times = np.sort(np.asarray(seconds, dtype=np.float64))
    kept = min(max(math.ceil(SHARE * len(times)), FEWEST), len(times))
    winsorized = np.minimum(times, times[kept - 1])
    spread = float(np.std(winsorized, ddof=1)) if len(times) > 1 else math.nan
    error = spread / (kept / len(times) * math.sqrt(len(times)))
    return FastMean(float(np.mean(times[:kept])), error)


def paired_ratio(own: Sequence[float], baseline: Sequence[float]) -> Interval:
    """How many times as fast a step is as the baseline's, with its 95% interval.

    `own` and `baseline` in seconds. The interval is that of this process: it says nothing of how
    processes differ, and its ends are NaN where one of them has one time only. Raises ValueError
    where one of them is empty, or took no time.
    """
    of_step, of_baseline = fast_mean(own), fast_mean(baseline)
    if min(of_step.value, of_baseline.value) <= 0:
        raise ValueError(f"steps took {list(own)} and {list(baseline)} seconds; expected above 0")
    value = of_baseline.value / of_step.value
    error = math.hypot(*(each.error / each.value for each in (of_step, of_baseline)))
    return Interval(
        value, value * math.exp(-NORMAL_95 * error), value * math.exp(NORMAL_95 * error)
    )
