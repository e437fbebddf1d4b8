"""Whether step times still show a trend: when the warm-up ends, and which samples are stable.

The warm-up ends as soon as one of these is true:

- the last CLOSE_STEPS times are within CLOSE of each other, so that a trend would not matter;
- the last TREND_STEPS times show no trend: a Mann-Kendall test finds none at the 5% level, or the
  trend that it finds (the Theil-Sen slope) changes the time by less than DRIFT over all of them.

Noise alone does not prolong the warm-up; the confidence interval of the median covers it. Samples
are stable if they show no trend in the same sense, at the 1% level, from the first to the last.
What disturbs a machine lasts for many short steps, and the test takes its values as independent: it
gets one median per BLOCK_SECONDS, of times that are relative to the fixed work around them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CLOSE_STEPS = 4
CLOSE = 0.02
TREND_STEPS = 8
DRIFT = 0.02
SAMPLES_DRIFT = 0.05
BLOCK_SECONDS = 0.03  # longer than most disturbances
FEWEST_BLOCKS = 8
MOST_BLOCKS = 200  # all pairs are compared

WARM_Z = 1.645  # a one-sided 5%
STABLE_Z = 2.576  # a two-sided 1%


def is_warm(seconds: Sequence[float]) -> bool:
    """Whether the last of these steps show that the warm-up is over."""
    last = seconds[-CLOSE_STEPS:]
    if len(last) == CLOSE_STEPS and max(last) - min(last) <= CLOSE * float(np.median(last)):
        return True
    last = seconds[-TREND_STEPS:]
    return len(last) == TREND_STEPS and not has_trend(last, WARM_Z, DRIFT)


def is_stable(
    samples: Sequence[float], after: Sequence[int] = (), work: Sequence[float] = ()
) -> bool:
    """Whether samples show no trend; fewer than CLOSE_STEPS never do.

    `work`: seconds of fixed work, each done after so many samples (`after`). A machine that becomes
    slower does so for both, and is no trend of the steps.
    """
    if len(samples) < CLOSE_STEPS:
        return True
    blocks = _block_medians(_relative(np.asarray(samples), after, work), sum(samples))
    return not has_trend(blocks, STABLE_Z, SAMPLES_DRIFT)


def _relative(samples: Array, after: Sequence[int], work: Sequence[float]) -> Array:
    """Each sample over what the fixed work took around it, between two of its times by a line."""
    if not work:
        return samples
    places, seconds = np.asarray(after), np.asarray(work)
    known = np.unique(places)
    medians = [float(np.median(seconds[places == place])) for place in known]
    return samples / np.interp(np.arange(len(samples)) + 0.5, known, medians)


def _block_medians(x: Array, seconds: float) -> Array:
    """The medians of consecutive blocks of BLOCK_SECONDS; `seconds`: of all values together."""
    blocks = min(max(round(seconds / BLOCK_SECONDS), FEWEST_BLOCKS), MOST_BLOCKS)
    if len(x) <= blocks:
        return x
    return np.array([np.median(block) for block in np.array_split(x, blocks)])


def has_trend(seconds: Sequence[float] | Array, z: float, drift: float) -> bool:
    """Whether times change significantly (at `z`) and by more than `drift` of their median.

    Mann 1945 and Kendall 1975, with the normal approximation and continuity correction.
    """
    x = np.asarray(seconds, dtype=np.float64)
    n = len(x)
    earlier, later = np.triu_indices(n, 1)
    difference = x[later] - x[earlier]
    total = abs(float(np.sign(difference).sum()))
    spread = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    if total - 1 <= z * spread:
        return False
    slope = float(np.median(difference / (later - earlier)))
    return abs(slope) * (n - 1) > drift * float(np.median(x))
