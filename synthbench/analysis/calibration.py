"""The time of a step relative to a fixed piece of work that was timed between the steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synthbench.analysis.intervals import Interval, quantile_interval

# What disturbs a step only adds time: the fastest steps and the fastest work met the least of it.
LOW = 0.1


def low_seconds(seconds: Sequence[float]) -> float:
    """The time that only a tenth of some work was faster than; raises ValueError without work."""
    return quantile_interval(seconds, LOW).value


def relative_interval(samples: Sequence[float], work: Sequence[float]) -> Interval:
    """The time of a step over that of the fixed work, both at the quantile LOW, with its interval.

    A machine that is slower for a while makes both longer, so their ratio changes less than either
    (a control variate; compare duet benchmarking, Bulej et al. 2020, doi:10.1145/3358960.3379132).
    `samples` and `work` in seconds. The interval takes both as independent. Raises ValueError where
    one of them is empty, or the work took no time.
    """
    if not work or min(work) <= 0:
        raise ValueError(f"the fixed work took {list(work)} seconds; expected some, all above 0")
    of_step, of_work = quantile_interval(samples, LOW), quantile_interval(work, LOW)
    value = of_step.value / of_work.value
    if value == 0:
        return Interval(0.0, 0.0, of_step.high / of_work.low)
    down = math.hypot(_log(of_step.value, of_step.low), _log(of_work.high, of_work.value))
    up = math.hypot(_log(of_step.high, of_step.value), _log(of_work.value, of_work.low))
    return Interval(value, value * math.exp(-down), value * math.exp(up))


def _log(above: float, below: float) -> float:
    return math.log(above / below) if below > 0 else math.inf
