"""What else ran on the cores: readings made up, and one process that is really busy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from synthbench.measure.cores import (
    LEAST_SECONDS,
    CoreMonitor,
    Reading,
    judge_cores,
    read_cores,
)

BEFORE = Reading(
    wall=100.0, own=5.0, busy=1000.0, stolen=3.0, preempted=7, heat_events=2, megahertz=3000.0
)


def after(seconds: float, own: float, busy: float, **changes: Any) -> Reading:
    """A reading so many seconds later, in which this process and the cores took so much more."""
    later = replace(BEFORE, wall=100.0 + seconds, own=5.0 + own, busy=1000.0 + busy)
    return replace(later, **changes)


def test_cores_of_ones_own_give_no_warning() -> None:
    assert judge_cores(BEFORE, after(2.0, own=3.9, busy=3.95), cores=2) == []
    assert judge_cores(BEFORE, after(2.0, own=1.0, busy=1.15), cores=2) == []  # under 5%


def test_another_process_is_named_with_what_it_took() -> None:
    (warning,) = judge_cores(BEFORE, after(2.0, own=3.0, busy=4.0, preempted=19), cores=2)
    assert "another process was busy on the measured cores" in warning
    assert "1.00 s of 4.00 core seconds (25%)" in warning
    assert "preempted 12 times" in warning


def test_a_stretch_shorter_than_the_ticks_says_nothing() -> None:
    assert judge_cores(BEFORE, after(0.02, own=0.0, busy=LEAST_SECONDS), cores=2) == []


def test_the_hypervisor_heat_and_the_clock_are_told_apart() -> None:
    stolen = judge_cores(BEFORE, after(1.0, 2.0, 2.0, stolen=3.5), cores=2)
    assert len(stolen) == 1
    assert "hypervisor" in stolen[0]
    hot = judge_cores(BEFORE, after(1.0, 2.0, 2.0, heat_events=5, megahertz=2000.0), cores=2)
    assert hot == [
        "the measured cores were throttled for their heat 3 times",
        "the clock of the measured cores fell from 3000 to 2000 MHz",
    ]
    assert judge_cores(BEFORE, after(1.0, 2.0, 2.0, megahertz=2800.0), cores=2) == []


def test_what_cannot_be_read_is_not_warned_of() -> None:
    unknown = replace(BEFORE, busy=None, megahertz=None)
    assert judge_cores(unknown, replace(unknown, wall=200.0), cores=2) == []


def test_readings_are_those_of_the_cores_asked_for(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    lines = ["cpu  9 9 9 9 9 9 9 9 9 9"]
    lines += [f"cpu{n} {tick * (n + 1)} 0 {tick} 999 999 0 0 {tick * n} 0 0" for n in range(12)]
    (tmp_path / "stat").write_text("\n".join([*lines, "intr 12"]))
    for core, kilohertz, events in ((1, 2_500_000, 4), (11, 3_000_000, 6)):
        folder = tmp_path / f"cpu{core}"
        (folder / "cpufreq").mkdir(parents=True)
        (folder / "thermal_throttle").mkdir()
        (folder / "cpufreq/scaling_cur_freq").write_text(f"{kilohertz}\n")
        (folder / "thermal_throttle/core_throttle_count").write_text(f"{events}\n")
    reading = read_cores([1, 11], proc=tmp_path, system=tmp_path)
    assert reading.busy == 2 + 1 + 12 + 1
    assert reading.stolen == 1 + 11
    assert (reading.heat_events, reading.megahertz) == (10, 3000.0)
    nothing = read_cores([1, 99], proc=tmp_path, system=tmp_path / "none")
    assert (nothing.busy, nothing.megahertz, nothing.heat_events) == (None, None, 0)
    assert read_cores([0], proc=tmp_path / "none").busy is None


def test_a_watch_judges_what_lies_between() -> None:
    readings: Iterator[Reading] = iter([BEFORE, after(1.0, own=0.5, busy=1.0)])
    with CoreMonitor([0], read=lambda cores: next(readings)) as watch:
        assert watch.warnings == []
    assert len(watch.warnings) == 1


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="there is no /proc/stat here")
def test_a_process_that_is_really_busy_on_the_core_is_seen() -> None:
    """It takes half a second of CPU time, however long that lasts; then it is not reaped yet."""
    core = sorted(os.sched_getaffinity(0))[-1]
    script = (
        f"import os, time; os.sched_setaffinity(0, [{core}])\nwhile time.process_time() < 0.5: pass"
    )
    with CoreMonitor([core]) as watch:
        burner = subprocess.Popen([sys.executable, "-c", script])
        # Once reaped, its time would count as this process's own.
        os.waitid(os.P_PID, burner.pid, os.WEXITED | os.WNOWAIT)
    assert burner.wait() == 0
    assert any("another process was busy" in warning for warning in watch.warnings)
