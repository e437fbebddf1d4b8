"""Steady state: seconds of each step, after a warm-up, each one waited for."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

CLOCK = "perf_counter, waited"
MIN_WARMUP_STEPS = 2
MAX_WARMUP_STEPS = 50
WARMUP_SHARE = 1 / 3  # of max_seconds, at most
STABLE_WITHIN = 0.10  # of the median of the last three steps
MAX_SAMPLES = 1000  # more would not narrow an interval, only fill the disk


@dataclass(frozen=True)
class SteadyState:
    """`samples` in seconds, in order; `warmup_steps` were run and thrown away before."""

    samples: list[float]
    warmup_steps: int


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
    before: Sequence[float] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> SteadyState:
    """Warm up until stable, then take at least `min_samples` and `min_seconds` of steps.

    `before` are the seconds of steps already run; they count as warm-up. `max_seconds` bounds
    warm-up and samples together, and wins: one sample is taken in any case. At most MAX_SAMPLES.
    """
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        warmup = list(before)
        while not _is_warm(warmup, max_seconds * WARMUP_SHARE):
            warmup.append(timed(step, wait, clock))
        spent = sum(warmup)
        samples: list[float] = []
        sampled = 0.0
        while True:
            samples.append(timed(step, wait, clock))
            sampled += samples[-1]
            enough = len(samples) >= min_samples and sampled >= min_seconds
            if enough or spent + sampled >= max_seconds or len(samples) >= MAX_SAMPLES:
                break
    finally:
        if enabled:
            gc.enable()
    return SteadyState(samples, len(warmup))


def _is_warm(seconds: Sequence[float], max_seconds: float) -> bool:
    if len(seconds) >= MAX_WARMUP_STEPS or sum(seconds) >= max_seconds:
        return True
    if len(seconds) < MIN_WARMUP_STEPS:
        return False
    settled = statistics.median(seconds[-3:])
    return abs(seconds[-1] - settled) <= STABLE_WITHIN * settled
