"""Steady state: the time of each step after the warm-up, until its result is available."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from synthbench.analysis.intervals import half_width, median_interval
from synthbench.analysis.trend import is_stable, is_warm
from synthbench.devices import is_host
from synthbench.measure.between import (
    SHORT_SECONDS,
    Beside,
    Times,
    baseline_steps,
    fixed_work,
)
from synthbench.measure.new_pages import REPEATS, waited_for_memory

CLOCK = "perf_counter, waited"
CLOCK_SYNCHRONISED = "perf_counter, device synchronised"
MIN_WARMUP_STEPS = 2
MAX_WARMUP_STEPS = 1000
# Below this a core, or an accelerator, may still be raising its clock.
HOST_WARMUP_SECONDS = 0.02
ACCELERATOR_WARMUP_SECONDS = 0.5
WARMUP_SHARE = 1 / 4  # of max_seconds, at most
MAX_SAMPLES = 1000  # more would fill the disk without narrowing the interval
MIN_PRECISE_SAMPLES = 6  # with fewer, no interval between samples has 95% confidence
GROWTH = 1.25  # the interval is computed again after the samples grew by this factor


@dataclass(frozen=True)
class SteadyState:
    """`samples` in seconds, in order, after `warmup_steps` steps that were discarded.

    `precision` is half the width of the median's 95% confidence interval over the median; None for
    one sample. `calibration`: None without fixed work; `baseline`: None where it was not timed.
    """

    samples: list[float]
    warmup_steps: int
    precision: float | None
    stable: bool
    calibration: Times | None = None
    baseline: Times | None = None


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
    beside: Beside | None = None,
    pages: Callable[[], int] = lambda: 0,
) -> SteadyState:
    """Warm up until the times show no trend, then sample until there are enough samples.

    That is at least `min_samples` samples of `min_seconds` together and, if `precision` is given, a
    95% confidence interval of the median no wider than +- `precision` of it. `before`: seconds of
    steps that already ran; they count as warm-up, which lasts `least_warmup` seconds at least.
    `max_seconds` limits warm-up and sampling together and takes precedence, but there is at least
    one sample. At most MAX_SAMPLES. `watch` is a context manager that is active while sampling.
    `inspect` is called with what the last step returned, at once; nothing that an earlier step
    returned is kept.

    `calibrate` does fixed work so many times and returns the seconds of each: it is called before
    the first sample, about every BLOCK_SECONDS of samples, and after the last one. So are the steps
    of the baseline `beside` it, which take turns of equal length with the samples, in addition to
    `max_seconds`; there are `min_samples` of them too, unless time is up before. After either, a
    step of less than SHORT_SECONDS runs once without being a sample.

    `pages` counts the new pages of memory of this process: before the first sample, the baseline
    may have taken what the warm-up had freed. A first sample that waited for memory counts as
    warm-up, in addition to `max_seconds`.
    """
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        warmup = list(before)
        while not _is_warmup_over(warmup, least_warmup, max_seconds * WARMUP_SHARE):
            warmup.append(timed(step, wait, clock))
        left = max_seconds - sum(warmup)
        shortest = min(warmup)
        fixed = None if calibrate is None else fixed_work(calibrate, shortest, clock)
        paired = None if beside is None else baseline_steps(beside, shortest, clock)
        between = [each for each in (fixed, paired) if each is not None]
        samples: list[float] = []
        spent = sampled = 0.0
        next_look = max(min_samples, MIN_PRECISE_SAMPLES)

        def work_between() -> float:
            """Do what is due after these samples; the seconds that count."""
            due = [each for each in between if each.is_due(len(samples))]
            counted = 0.0
            for each in due:
                seconds = each.do(len(samples))
                counted += 0.0 if each is paired else seconds
            if due and shortest < SHORT_SECONDS:
                counted += timed(step, wait, clock)
            return counted

        with watch if watch is not None else nullcontext():
            spent += work_between()
            repeats = 0
            while True:
                produced = None  # before the next step, which may use its memory again
                before_step = pages()
                seconds, produced = timed_result(step, wait, clock)
                is_late = waited_for_memory(pages() - before_step, seconds)
                if is_late and not samples and repeats < REPEATS:
                    repeats += 1
                    continue
                samples.append(seconds)
                sampled, spent = sampled + seconds, spent + seconds
                if spent >= left or len(samples) >= MAX_SAMPLES:
                    break
                of_baseline = min_samples if paired is None else len(paired.found.seconds)
                fewest = min(len(samples), of_baseline)
                if fewest >= min_samples and sampled >= min_seconds:
                    if precision is None:
                        break
                    if len(samples) >= next_look:
                        if half_width(median_interval(samples)) <= precision:
                            break
                        next_look = int(len(samples) * GROWTH) + 1
                produced = None
                spent += work_between()
            if inspect is not None:
                inspect(produced)
            produced = None
            for each in between:
                each.do(len(samples))
    finally:
        if enabled:
            gc.enable()
    reached = half_width(median_interval(samples)) if len(samples) > 1 else None
    found = fixed.found if fixed else None
    stable = is_stable(samples, found.after, found.seconds) if found else is_stable(samples)
    beside_it = None if paired is None else paired.found
    return SteadyState(samples, len(warmup) + repeats, reached, stable, found, beside_it)


def _is_warmup_over(seconds: Sequence[float], least: float, most: float) -> bool:
    """Whether the warm-up ends, because its limit is reached or the steps are warm."""
    spent = sum(seconds)
    if spent >= most:
        return True
    if len(seconds) < MIN_WARMUP_STEPS or spent < min(least, most):
        return False
    return len(seconds) >= MAX_WARMUP_STEPS or is_warm(seconds)
