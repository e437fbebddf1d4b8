"""Work left behind by a step, as a test that turns clock and activity sees it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from synthbench.measure.background import (
    LONGEST_SECONDS,
    LOOK_SECONDS,
    SPIN_SECONDS,
    SPIN_SECONDS_INTEL,
    Activity,
    allowed_seconds,
    read_activity,
    require_idle,
)
from synthbench.measure.plausibility import ImplausibleError


class Process:
    """A process whose other threads use these CPU seconds from one look to the next."""

    def __init__(self, used: Sequence[tuple[float, int]] | Iterator[tuple[float, int]]) -> None:
        self.used = iter(used)
        self.now = self.cpu = 5.0
        self.looks = 0

    def read(self) -> Activity:
        self.looks += 1
        seconds, runnable = next(self.used, (0.0, 0))
        self.cpu += seconds
        return Activity(self.cpu, runnable)

    def wait(self, seconds: float) -> None:
        assert seconds == LOOK_SECONDS
        self.now += seconds

    def require_idle(
        self, cores: int = 2, environment: Mapping[str, str] = {}, step_seconds: float = 0.0
    ) -> float:
        return require_idle(
            step_seconds,
            self.read,
            cores=cores,
            wait=self.wait,
            clock=lambda: self.now,
            environment=environment,
        )


def test_an_idle_process_is_looked_at_three_times() -> None:
    process = Process([])
    assert process.require_idle() == 0.0
    assert process.looks == 3


def test_memory_may_be_freed_for_a_fifth_of_a_step() -> None:
    assert Process([(0.01, 1)] * 9).require_idle(step_seconds=0.5) < 0.1
    with pytest.raises(ImplausibleError, match=r"1\d0 ms of CPU time .* at most 100 ms"):
        Process([(0.01, 1)] * 20).require_idle(step_seconds=0.5)
    with pytest.raises(ImplausibleError, match="at most 40 ms"):  # a step that left its work
        Process([(0.01, 1)] * 20).require_idle(step_seconds=0.036)


def test_threads_that_spin_for_a_while_are_waited_for() -> None:
    spinning = [(0.0, 1)] + [(0.001, 1)] * 15
    process = Process(spinning)
    assert process.require_idle() == pytest.approx(0.015)
    assert process.looks == len(spinning) + 2


def test_threads_may_spin_on_each_core() -> None:
    assert allowed_seconds(2, {}) == pytest.approx(2 * SPIN_SECONDS)
    assert Process([(0.0, 1), (0.039, 1)]).require_idle(cores=2) == pytest.approx(0.039)
    with pytest.raises(ImplausibleError, match=r"41 ms of CPU time.*at most 40 ms"):
        Process([(0.0, 1), (0.041, 1)]).require_idle(cores=2)
    assert Process([(0.0, 1), (0.041, 1)]).require_idle(cores=3) == pytest.approx(0.041)


def test_a_thread_that_pauses_between_two_looks_is_found() -> None:
    pausing = [(0.0, 1)] + [(0.0005, 0), (0.0, 0)] * 200
    with pytest.raises(ImplausibleError, match="still computing when the last step had returned"):
        Process(pausing).require_idle()


def test_a_thread_that_waits_for_a_core_is_waited_for() -> None:
    starved = [(0.0, 1)] * 50 + [(0.05, 1)]
    with pytest.raises(ImplausibleError, match="50 ms of CPU time"):
        Process(starved).require_idle()


def test_waiting_ends() -> None:
    process = Process((0.0, 1) for _ in iter(int, 1))
    assert process.require_idle() == 0.0
    assert LONGEST_SECONDS <= process.now - 5.0 < LONGEST_SECONDS + 2 * LOOK_SECONDS


@pytest.mark.parametrize(
    ("name", "value"),
    [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "infinite"), ("KMP_BLOCKTIME", "infinite")],
)
def test_threads_that_are_told_to_spin_forever_prove_nothing(name: str, value: str) -> None:
    busy = [(0.01, 1)] * 20
    assert Process(busy).require_idle(environment={name: value}) > 0.1
    with pytest.raises(ImplausibleError):
        Process(busy).require_idle(environment={name: "1"})


def test_intels_runtime_may_spin_longer(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/maps").write_text("7f00 r-xp 0 08:01 1 /opt/lib/libiomp5.so\n")
    assert allowed_seconds(2, {}, tmp_path) == pytest.approx(2 * SPIN_SECONDS_INTEL)
    assert allowed_seconds(2, {}, tmp_path / "absent") == pytest.approx(2 * SPIN_SECONDS)


def processes(proc: Path, states: dict[str, str]) -> None:
    """Write stat files, by "process/thread", of threads in these states."""
    for name, state in states.items():
        folder = proc / name.replace("/", "/task/")
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"1 (a) b) {state} " + "0 " * 10 + "7 5 0\n")


def test_who_is_runnable_and_what_children_used(tmp_path: Path) -> None:
    own, main, child = os.getpid(), threading.get_native_id(), 4_000_001
    assert read_activity(tmp_path).runnable == 0
    processes(tmp_path, {f"{own}/{main}": "R", f"{own}/4000002": "R", f"{own}/4000003": "S"})
    alone = read_activity(tmp_path)
    assert alone.runnable == 1, "the calling thread is not counted"
    processes(tmp_path, {f"{child}/{child}": "R"})
    (tmp_path / f"{own}/task/{main}/children").write_text(f"{child} ")
    (tmp_path / f"{child}/stat").write_text(f"{child} (x) R " + "0 " * 10 + "700 500 0\n")
    both = read_activity(tmp_path)
    assert both.runnable == 2
    used = 1200 / os.sysconf("SC_CLK_TCK")
    assert both.cpu_seconds - alone.cpu_seconds > 0.9 * used
    (tmp_path / f"{child}/cmdline").write_bytes(
        b"python\0/x/torch/_inductor/compile_worker/__main__"
    )
    assert read_activity(tmp_path).runnable == 1, "compilers of the framework are not counted"


def test_a_real_thread_is_seen() -> None:
    """CPU time of a thread that computes is counted, that of the calling thread is not."""
    stop = threading.Event()
    before = read_activity().cpu_seconds

    def spin() -> None:
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        while read_activity().cpu_seconds - before < 0.05:
            time.sleep(0.001)
    finally:
        stop.set()
        thread.join()
    assert read_activity().cpu_seconds - before >= 0.05
