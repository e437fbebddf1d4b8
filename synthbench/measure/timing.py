"""Steady state: the time of each step after the warm-up, until its result is available."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from synthbench.analysis.intervals import half_width, median_interval
from synthbench.analysis.trend import is_stable, is_warm
from synthbench.devices import is_host

CLOCK = "perf_counter, waited"
CLOCK_SYNCHRONISED = "perf_counter, device synchronised"
MIN_WARMUP_STEPS = 2
MAX_WARMUP_STEPS = 1000
# Below this a core, or an accelerator, may still be raising its clock.
HOST_WARMUP_SECONDS = 0.02
ACCELERATOR_WARMUP_SECONDS = 0.5
WARMUP_SHARE = 1 / 3  # of max_seconds, at most
MAX_SAMPLES = 1000  # more would fill the disk without narrowing the interval
MIN_PRECISE_SAMPLES = 6  # with fewer, no interval between samples has 95% confidence
GROWTH = 1.25  # the interval is computed again after the samples grew by this factor
# Of samples, between the fixed work: what disturbs comes in bursts of milliseconds.
CALIBRATE_EVERY = 0.03
REPETITIONS = 2  # of the fixed work, for every CALIBRATE_EVERY of samples
MOST_REPETITIONS = 16  # at a time


@dataclass
class Calibration:
    """The seconds of fixed work between the steps, and after how many samples each was done."""

    after: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class FixedWork:
    """Fixed work between the steps: `times` repetitions after `every` samples, and what it took.

    Both are decided before the first sample. If more work were done where steps are slower, its
    times would be those of slower moments than the samples are.
    """

    work: Callable[[int], list[float]]  # does it so many times; the seconds of each
    every: int
    times: int
    clock: Callable[[], float]
    found: Calibration = field(default_factory=Calibration)

    @classmethod
    def for_step(
        cls, work: Callable[[int], list[float]], seconds: float, clock: Callable[[], float]
    ) -> FixedWork:
        """In proportion to a step of so many seconds."""
        every = max(round(CALIBRATE_EVERY / max(seconds, CALIBRATE_EVERY / MAX_SAMPLES)), 1)
        times = REPETITIONS * max(round(every * seconds / CALIBRATE_EVERY), 1)
        return cls(work, every, min(times, MOST_REPETITIONS), clock)

    def do(self, after: int) -> float:
        """Do it after so many samples, and note the seconds; returns how long all of it took."""
        begin = self.clock()
        seconds = self.work(self.times)
        self.found.after += [after] * len(seconds)
        self.found.seconds += seconds
        return self.clock() - begin


@dataclass(frozen=True)
class SteadyState:
    """`samples` in seconds, in order, after `warmup_steps` steps that were discarded.

    `precision` is half the width of the median's 95% confidence interval over the median; None for
    one sample. `calibration`: None without fixed work.
    """

    samples: list[float]
    warmup_steps: int
    precision: float | None
    stable: bool
    calibration: Calibration | None = None


def least_warmup_seconds(device: str) -> float:
    """How long a device needs at least until its clock is high."""
    return HOST_WARMUP_SECONDS if is_host(device) else ACCELERATOR_WARMUP_SECONDS


def clock_of(device: str) -> str:
    """How a step on a device is timed; stored in records."""
    return CLOCK if is_host(device) else CLOCK_SYNCHRONISED


def timed(
    step: Callable[[], Any],
    wait: Callable[[Any], None],
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds from the call of a step until its result is available."""
    return timed_result(step, wait, clock)[0]


def timed_result(
    step: Callable[[], Any],
    wait: Callable[[Any], None],
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, Any]:
    """Like `timed`, with what the step returned."""
    begin = clock()
    produced = step()
    wait(produced)
    return clock() - begin, produced


def time_steps(
    step: Callable[[], Any],
    wait: Callable[[Any], None],
    *,
    min_samples: int,
    min_seconds: float,
    max_seconds: float,
    precision: float | None = None,
    before: Sequence[float] = (),
    least_warmup: float = HOST_WARMUP_SECONDS,
    watch: AbstractContextManager[Any] | None = None,
    clock: Callable[[], float] = time.perf_counter,
    inspect: Callable[[Any], None] | None = None,
    calibrate: Callable[[int], list[float]] | None = None,
) -> SteadyState:
    """Warm up until the times show no trend, then sample until there are enough samples.

    That is at least `min_samples` samples of `min_seconds` together and, if `precision` is given, a
    95% confidence interval of the median no wider than +- `precision` of it. `before`: seconds of
    steps that already ran; they count as warm-up, which lasts `least_warmup` seconds at least.
    `max_seconds` limits warm-up and sampling together and takes precedence, but there is at least
    one sample. At most MAX_SAMPLES. `watch` is a context manager that is active while sampling.
    `inspect` is called with what the last step returned, at once; nothing that an earlier step
    returned is kept. `calibrate` does fixed work so many times and returns the seconds of each: it
    is called before the first sample, after as many samples as take about CALIBRATE_EVERY, and
    after the last one. A short step then runs once without being a sample: its data were displaced
    in the caches.
    """
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        warmup = list(before)
        while not _is_warmup_over(warmup, least_warmup, max_seconds * WARMUP_SHARE):
            warmup.append(timed(step, wait, clock))
        left = max_seconds - sum(warmup)
        fixed = None if calibrate is None else FixedWork.for_step(calibrate, min(warmup), clock)
        samples: list[float] = []
        spent = sampled = 0.0
        next_look = max(min_samples, MIN_PRECISE_SAMPLES)
        with watch if watch is not None else nullcontext():
            if fixed is not None:
                spent += fixed.do(0)
                if fixed.every > 1:
                    spent += timed(step, wait, clock)
            while True:
                produced = None  # before the next step, which may use its memory again
                seconds, produced = timed_result(step, wait, clock)
                samples.append(seconds)
                sampled, spent = sampled + seconds, spent + seconds
                if spent >= left or len(samples) >= MAX_SAMPLES:
                    break
                if len(samples) >= min_samples and sampled >= min_seconds:
                    if precision is None:
                        break
                    if len(samples) >= next_look:
                        if half_width(median_interval(samples)) <= precision:
                            break
                        next_look = int(len(samples) * GROWTH) + 1
                if fixed is not None and len(samples) % fixed.every == 0:
                    produced = None
                    spent += fixed.do(len(samples))
                    if fixed.every > 1:
                        spent += timed(step, wait, clock)
            if inspect is not None:
                inspect(produced)
            produced = None
            if fixed is not None:
                fixed.do(len(samples))
    finally:
        if enabled:
            gc.enable()
    reached = half_width(median_interval(samples)) if len(samples) > 1 else None
    found = fixed.found if fixed else None
    stable = is_stable(samples, found.after, found.seconds) if found else is_stable(samples)
    return SteadyState(samples, len(warmup), reached, stable, found)


def _is_warmup_over(seconds: Sequence[float], least: float, most: float) -> bool:
    """Whether the warm-up ends, because its limit is reached or the steps are warm."""
    spent = sum(seconds)
    if spent >= most:
        return True
    if len(seconds) < MIN_WARMUP_STEPS or spent < min(least, most):
        return False
    return len(seconds) >= MAX_WARMUP_STEPS or is_warm(seconds)
