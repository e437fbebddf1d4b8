"""What else ran on the cores: readings made up, and one process that is really busy."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.measure import interference
from synthbench.measure.cores import (
    LEAST_SECONDS,
    CoreMonitor,
    Reading,
    judge_cores,
    read_cores,
)
from synthbench.measure.interference import InterferenceMonitor

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


def test_one_busy_core_of_many_is_named() -> None:
    """Every thread of a step waits for the one on that core; it has 1.6% of 64 cores."""
    most = 64 * 10.0
    assert judge_cores(BEFORE, after(10.0, own=most - 10, busy=most - 5.1), cores=64) == []
    (warning,) = judge_cores(BEFORE, after(10.0, own=most - 10, busy=most - 4.9), cores=64)
    assert "5.10 s of 640.00 core seconds (1%)" in warning
    (stolen,) = judge_cores(BEFORE, after(10.0, 0.0, 0.0, stolen=3.0 + 5.1), cores=64)
    assert "hypervisor" in stolen


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


def test_each_warning_begins_just_above_its_threshold() -> None:
    """Powers of two, so that the differences are exact: 5% of 16 s x 2 cores is 1.6 s."""
    before = replace(BEFORE, wall=0.0, own=0.0, busy=0.0, stolen=0.0)

    def judged(**changes: Any) -> list[str]:
        return judge_cores(before, replace(before, wall=16.0, **changes), cores=2)

    assert judged(busy=1.6) == []
    assert judged(busy=1.625, preempted=7) == [
        "another process was busy on the measured cores: 1.62 s of 32.00 core seconds (5%); this "
        "one was preempted 0 times"
    ]
    assert judged(stolen=1.6) == []
    assert judged(stolen=2.0) == [
        "the hypervisor took the measured cores away for 2.00 s of 32.00 core seconds (6%)"
    ]
    assert judged(heat_events=2) == []
    assert judged(heat_events=1) == []  # a counter that was reset
    assert len(judged(heat_events=3)) == 1
    assert judged(megahertz=2700.0) == []
    assert judged(megahertz=2699.0) == [
        "the clock of the measured cores fell from 3000 to 2699 MHz"
    ]
    assert judged(megahertz=None, busy=None) == []
    assert judge_cores(replace(before, busy=None), replace(before, wall=16.0, busy=9.0), 2) == []


def test_own_time_is_that_of_threads_and_ended_children(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = {
        resource.RUSAGE_SELF: SimpleNamespace(ru_utime=1.0, ru_stime=2.0, ru_nivcsw=5),
        resource.RUSAGE_CHILDREN: SimpleNamespace(ru_utime=4.0, ru_stime=8.0, ru_nivcsw=50),
    }
    monkeypatch.setattr(resource, "getrusage", usage.__getitem__)
    monkeypatch.setattr(time, "perf_counter", lambda: 33.0)
    reading = read_cores([0])
    assert (reading.wall, reading.own, reading.preempted) == (33.0, 15.0, 5)


def test_every_kind_of_busy_time_counts_but_idle_and_waiting(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    counters = [tick * 2**n for n in range(10)]  # user nice system idle iowait irq softirq steal
    (tmp_path / "stat").write_text("cpu0 " + " ".join(map(str, counters)))
    reading = read_cores([0], proc=tmp_path, system=tmp_path)
    assert reading.busy == 1 + 2 + 4 + 32 + 64
    assert reading.stolen == 128


def test_cores_and_device_are_watched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Part:
        def __init__(self, watched: object) -> None:
            self.watched, self.warnings = watched, [f"warning of {watched}"]

        def __enter__(self) -> None:
            events.append(f"enter {self.watched}")

        def __exit__(self, *exception: object) -> None:
            events.append(f"exit {self.watched}")

    monkeypatch.setattr(interference, "usable_cores", lambda: [4])
    monkeypatch.setattr(interference, "CoreMonitor", Part)
    monkeypatch.setattr(interference, "GpuMonitor", Part)
    with InterferenceMonitor("cpu") as watch:
        pass
    assert watch.warnings == ["warning of [4]"]
    assert events == ["enter [4]", "exit [4]"]
    events.clear()
    with InterferenceMonitor("cuda:1") as watch:
        assert events == ["enter cuda:1", "enter [4]"]
    assert watch.warnings == ["warning of cuda:1", "warning of [4]"]
    assert events[2:] == ["exit [4]", "exit cuda:1"]
    events.clear()
    with InterferenceMonitor("cuda:1", 2):
        assert events == ["enter cuda:1", "enter cuda:2", "enter [4]"]
    events.clear()
    with InterferenceMonitor("cpu", 2):
        assert events == ["enter [4]"]


def test_what_child_processes_compute_is_not_that_of_others() -> None:
    """They count while they run, and once when they have ended."""
    before = read_cores([0]).own
    code = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    while_it_lives = read_cores([0]).own
    child.communicate("")
    after = read_cores([0]).own
    assert while_it_lives - before >= 0.45  # in ticks of 10 ms
    assert 0 <= after - while_it_lives + 0.05 < 0.4


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
    """It takes half a second of CPU time, however long that lasts, and is no child of this one."""
    core = sorted(os.sched_getaffinity(0))[-1]
    script = (
        "import os, time\nif os.fork(): os._exit(0)\n"
        f"os.sched_setaffinity(0, [{core}])\nwhile time.process_time() < 0.5: pass"
    )
    with CoreMonitor([core]) as watch:
        parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert parent.wait() == 0
        assert parent.stdout is not None
        parent.stdout.read()  # ends with the process
        parent.stdout.close()
    assert any("another process was busy" in warning for warning in watch.warnings)
