"""Steady state: seconds of each step, after a warm-up, each one waited for."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from synthbench.analysis.intervals import half_width, median_interval
from synthbench.analysis.trend import is_stable, is_warm

CLOCK = "perf_counter, waited"
CLOCK_CUDA = "perf_counter, device synchronised"
MIN_WARMUP_STEPS = 2
MAX_WARMUP_STEPS = 1000
MIN_WARMUP_SECONDS = 0.02  # below this a core may still be raising its clock
WARMUP_SHARE = 1 / 3  # of max_seconds, at most
MAX_SAMPLES = 1000  # more would not narrow an interval, only fill the disk
MIN_PRECISE_SAMPLES = 6  # of fewer, no interval between samples holds the median at 95%
GROWTH = 1.25  # the interval is looked at when there are so many times as many samples


@dataclass(frozen=True)
class SteadyState:
    """`samples` in seconds, in order; `warmup_steps` were run and thrown away before.

    `precision` is half of the 95% interval of their median over the median, None for one sample.
    """

    samples: list[float]
    warmup_steps: int
    precision: float | None
    stable: bool


def clock_of(device: str) -> str:
    """How a step on a device is timed, as it stands in records."""
    return CLOCK if device == "cpu" else CLOCK_CUDA


def timed(
    step: Callable[[], Any],
    wait: Callable[[Any], None],
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds from the call of a step until what it returned is there."""
    begin = clock()
    produced = step()
    wait(produced)
    return clock() - begin


def time_steps(
    step: Callable[[], Any],
    wait: Callable[[Any], None],
    *,
    min_samples: int,
    min_seconds: float,
    max_seconds: float,
    precision: float | None = None,
    before: Sequence[float] = (),
    watch: AbstractContextManager[Any] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> SteadyState:
    """Warm up until no trend is left, then sample until there is enough.

    Enough are `min_samples`, `min_seconds` of them, and, where `precision` is given, a 95%
    interval of the median that is no wider than +- `precision` of it. `before` are the seconds of
    steps already run; they count as warm-up. `max_seconds` bounds warm-up and samples together,
    and wins: one sample is taken in any case. At most MAX_SAMPLES. `watch` is entered for the
    samples alone.
    """
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        warmup = list(before)
        while not _is_over(warmup, max_seconds * WARMUP_SHARE):
            warmup.append(timed(step, wait, clock))
        left = max_seconds - sum(warmup)
        samples: list[float] = []
        sampled = 0.0
        look_at = max(min_samples, MIN_PRECISE_SAMPLES)
        with watch if watch is not None else nullcontext():
            while True:
                samples.append(timed(step, wait, clock))
                sampled += samples[-1]
                if sampled >= left or len(samples) >= MAX_SAMPLES:
                    break
                if len(samples) < min_samples or sampled < min_seconds:
                    continue
                if precision is None:
                    break
                if len(samples) >= look_at:
                    if half_width(median_interval(samples)) <= precision:
                        break
                    look_at = int(len(samples) * GROWTH) + 1
    finally:
        if enabled:
            gc.enable()
    reached = half_width(median_interval(samples)) if len(samples) > 1 else None
    return SteadyState(samples, len(warmup), reached, is_stable(samples))


def _is_over(seconds: Sequence[float], max_seconds: float) -> bool:
    """Whether warm-up ends here, since its bound is reached or steps are warm."""
    spent = sum(seconds)
    if len(seconds) >= MAX_WARMUP_STEPS or spent >= max_seconds:
        return True
    if len(seconds) < MIN_WARMUP_STEPS or spent < min(MIN_WARMUP_SECONDS, max_seconds):
        return False
    return is_warm(seconds)
