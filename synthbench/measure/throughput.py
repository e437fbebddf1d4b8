"""Steps one after another without waiting for each: what a full queue reaches, and its energy.

A step that is timed alone includes the time in which the device waits for Python. With a full queue
the device works without a pause, as in training; energy is counted over the same steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from synthbench.backends.base import Step
from synthbench.devices import is_host
from synthbench.measure.energy import EnergyCounter, energy_counter
from synthbench.record import DeviceState, Throughput

SECONDS = 0.5  # of steps; counters of energy are updated every 20 to 100 ms
MOST_STEPS = 20_000
FEWEST_STEPS = 3
TRIAL = 0.1  # of the seconds, to learn what a step takes with a full queue
DEVICE_STEPS = 5  # whose time on the device is read
AHEAD = 1.5  # times the median step: long enough for Python to queue a whole step


def measure_throughput(
    step: Step, device: str, median: float, devices: int = 1
) -> Throughput | None:
    """Measure a step with a full queue; None on a CPU whose energy cannot be read.

    There, steps are not queued: the median says it all.
    """
    with energy_counter(device, devices) as counter:
        if is_host(device) and counter is None:
            return None
        steps = _steps_in(SECONDS, median)
        if (trial := _steps_in(TRIAL * SECONDS, median)) > FEWEST_STEPS:
            # A short step takes much less with a full queue than alone.
            steps = _steps_in(SECONDS, run_queued(step, step.wait, trial).seconds)
        queued = run_queued(step, step.wait, steps, counter)
    times = 0 if is_host(device) else DEVICE_STEPS
    on_device = [step.device_seconds(AHEAD * median) for _ in range(times)]
    known = sorted(s for s in on_device if s is not None)
    return Throughput(
        steps=steps,
        seconds=queued.seconds,
        device_seconds=known[len(known) // 2] if known else None,
        joules=queued.joules,
        energy_source="" if counter is None or queued.joules is None else counter.source,
        state=queued.state,
    )


def _steps_in(seconds: float, of_step: float) -> int:
    return max(FEWEST_STEPS, min(MOST_STEPS, round(seconds / max(of_step, 1e-9))))


class Queued(NamedTuple):
    """What a step took with a full queue."""

    seconds: float
    joules: float | None  # None: no counter
    state: DeviceState | None  # of the device while the queue was full


def run_queued(
    step: Callable[[], Any],
    wait: Callable[[Any], None],
    steps: int,
    counter: EnergyCounter | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Queued:
    """Seconds and joules per step, of `steps` steps of which only the last is waited for."""
    before = None if counter is None else counter.joules()
    begin = clock()
    produced = None
    for _ in range(steps):
        produced = step()
    state = None if counter is None else counter.state()
    wait(produced)
    seconds = clock() - begin
    after = None if counter is None else counter.joules()
    used = None if before is None or after is None else max(0.0, after - before) / steps
    return Queued(seconds / steps, used, state)
