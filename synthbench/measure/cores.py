"""Watch the CPU cores: what else ran on them, and whether their clock rate fell."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from synthbench.measure.child_processes import PROC, cpu_seconds, descendants

SYSTEM = Path("/sys/devices/system/cpu")

# A warning needs other processes to take more than this share of the cores' time, or of many cores
# this much of one: a step waits for its slowest thread. The system counts busy time in ticks of
# 10 ms per core, so less than LEAST_SECONDS is not significant.
OTHERS_SHARE = 0.05
ONE_CORE_SHARE = 0.5
LEAST_SECONDS = 0.05
CLOCK_FALL = 0.10  # of the fastest core's clock

USER, NICE, SYSTEM_TIME, IRQ, SOFTIRQ, STEAL = 0, 1, 2, 5, 6, 7  # fields of /proc/stat, proc(5)


@dataclass(frozen=True)
class Reading:
    """The counters of some cores and of this process, and the clock rate, at one moment."""

    wall: float  # seconds
    own: float  # CPU seconds of this process, with all threads and child processes
    busy: float | None  # seconds in which any process ran on these cores; None: not readable
    stolen: float  # seconds the hypervisor gave to others
    preempted: int  # involuntary context switches of this process
    heat_events: int  # how often a core was throttled because of its temperature
    megahertz: float | None  # of the fastest of these cores


def read_cores(cores: Sequence[int], proc: Path = PROC, system: Path = SYSTEM) -> Reading:
    """Read every counter; one that this system does not have is None or zero."""
    this = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = cpu_seconds(descendants(os.getpid(), proc), proc)
    busy, stolen = _busy(cores, proc)
    folders = [system / f"cpu{core}" for core in cores]
    kilohertz = [_number(folder / "cpufreq/scaling_cur_freq") for folder in folders]
    known = [value for value in kilohertz if value]
    return Reading(
        wall=time.perf_counter(),
        own=this.ru_utime + this.ru_stime + ended.ru_utime + ended.ru_stime + children,
        busy=busy,
        stolen=stolen,
        preempted=this.ru_nivcsw,
        heat_events=sum(_number(f / "thermal_throttle/core_throttle_count") or 0 for f in folders),
        megahertz=max(known) / 1000 if known else None,
    )


def judge_cores(before: Reading, after: Reading, cores: int) -> list[str]:
    """One sentence per disturbance of the cores between two readings."""
    warnings: list[str] = []
    wall = after.wall - before.wall
    available = wall * cores
    allowed = max(min(OTHERS_SHARE * available, ONE_CORE_SHARE * wall), LEAST_SECONDS)
    if before.busy is not None and after.busy is not None:
        others = after.busy - before.busy - (after.own - before.own)
        if others > allowed:
            warnings.append(
                f"another process was busy on the measured cores: {others:.2f} s of "
                f"{available:.2f} core seconds ({others / available:.0%}); this one was "
                f"preempted {after.preempted - before.preempted} times"
            )
    stolen = after.stolen - before.stolen
    if stolen > allowed:
        warnings.append(
            f"the hypervisor took the measured cores away for {stolen:.2f} s of {available:.2f} "
            f"core seconds ({stolen / available:.0%})"
        )
    if (events := after.heat_events - before.heat_events) > 0:
        warnings.append(f"the measured cores were throttled for their heat {events} times")
    earlier, later = before.megahertz, after.megahertz
    if earlier and later and later < (1 - CLOCK_FALL) * earlier:
        warnings.append(
            f"the clock of the measured cores fell from {earlier:.0f} to {later:.0f} MHz"
        )
    return warnings


class CoreMonitor:
    """A context manager that reads the cores on entry and exit, and then has `warnings`."""

    def __init__(
        self, cores: Sequence[int], read: Callable[[Sequence[int]], Reading] = read_cores
    ) -> None:
        self.cores, self.read = list(cores), read
        self.warnings: list[str] = []

    def __enter__(self) -> CoreMonitor:
        self.before = self.read(self.cores)
        return self

    def __exit__(self, *exception: object) -> None:
        after = self.read(self.cores)
        self.warnings += judge_cores(self.before, after, len(self.cores))


def _busy(cores: Sequence[int], proc: Path) -> tuple[float | None, float]:
    """Busy seconds and stolen seconds of these cores since the system started."""
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        return None, 0.0
    names = {f"cpu{core}" for core in cores}
    tick = os.sysconf("SC_CLK_TCK")
    rows = [[int(x) for x in words[1:]] for line in lines if (words := line.split())[0] in names]
    if len(rows) != len(names):
        return None, 0.0
    counted = (USER, NICE, SYSTEM_TIME, IRQ, SOFTIRQ)
    busy = sum(row[field] for row in rows for field in counted)
    return busy / tick, sum(row[STEAL] for row in rows) / tick


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None
