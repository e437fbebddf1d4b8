"""The distance between cores: measured, made up, in records and in the table `machine_speed`."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from typing import cast

import pytest

from synthbench.api import backend_of
from synthbench.measure import core_distance as module
from synthbench.measure.core_distance import (
    ASSUMED_NEAR,
    FAR,
    MOST_WAKINGS,
    UsualDistance,
    bring_cores_together,
    core_distance,
    wake_cores,
)
from synthbench.record import Measurements, Record, Timing
from synthbench.report.tables.catalog import make_tables
from synthbench.report.tables.machine_speed import far_over_near, share_far
from synthbench.run import child
from synthbench.run.cell_runner import CellRunner
from synthbench.run.host_client import Host
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.progress import Silent
from synthbench.run.worker import run_cell
from synthbench.suites.measure import Measure
from synthbench.tasks import cost
from tests.test_calibration import records
from tests.test_tables import cell, run_of, value

several_cores = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores and threads that can choose them",
)
NEAR = 1.2


class Machine:
    """Cores that are near after so many wakings."""

    def __init__(self, wakings: int, hidden: bool = False) -> None:
        self.needed, self.woken, self.hidden = wakings, 0, hidden

    def wake(self) -> None:
        self.woken += 1

    def distance(self) -> float:
        near = self.hidden or self.woken >= self.needed
        return NEAR if near else 2 * FAR


@pytest.mark.parametrize("wakings", [1, 2, MOST_WAKINGS])
def test_cores_are_woken_until_they_are_near(wakings: int) -> None:
    machine = Machine(wakings)
    assert bring_cores_together(True, machine.distance, machine.wake, lambda: True) == NEAR
    assert machine.woken == wakings


def test_cores_that_stay_far_are_given_up() -> None:
    machine = Machine(MOST_WAKINGS + 1)
    assert bring_cores_together(True, machine.distance, machine.wake, lambda: True) == 2 * FAR
    assert machine.woken == MOST_WAKINGS


def test_cores_that_seem_near_are_woken_once() -> None:
    machine = Machine(0)
    assert bring_cores_together(True, machine.distance, machine.wake, lambda: True) == NEAR
    assert machine.woken == 1


def test_cores_that_are_never_near_are_woken_once() -> None:
    machine = Machine(MOST_WAKINGS)
    assert bring_cores_together(False, machine.distance, machine.wake, lambda: True) == 2 * FAR
    assert machine.woken == 1


def test_cores_are_near_as_a_rule_until_most_readings_are_far() -> None:
    usual = UsualDistance()

    def is_near_after(*distances: float | None) -> bool:
        usual.add(*distances)
        return usual.is_near

    far_afterwards = [is_near_after(1.0, FAR + 0.1) for _ in range(ASSUMED_NEAR)]
    assert all(far_afterwards)
    assert is_near_after(None) and is_near_after()  # not known
    assert not is_near_after(FAR + 0.1)
    assert is_near_after(FAR)


def test_cores_of_a_real_machine_are_only_measured() -> None:
    machine = Machine(1)
    assert bring_cores_together(True, machine.distance, machine.wake, lambda: False) == 2 * FAR
    assert machine.woken == 0


def test_where_there_is_no_distance_nothing_is_done() -> None:
    machine = Machine(1)
    assert bring_cores_together(True, lambda: None, machine.wake, lambda: True) is None
    assert machine.woken == 0


def test_one_core_has_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cores", lambda: [0])
    assert core_distance() is None


@several_cores
def test_the_distance_is_that_of_the_clock() -> None:
    """What the other core wrote takes three ticks, what the core wrote itself two."""

    def ticks() -> Iterator[float]:
        now = 0.0
        while True:
            for took in (3.0, 2.0):
                yield now
                now += took
                yield now

    assert core_distance(ticks().__next__) == pytest.approx(1.5)
    assert core_distance() > 0  # type: ignore[operator]


@several_cores
def test_waking_leaves_nothing_behind() -> None:
    cores = os.sched_getaffinity(0)
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    threads = threading.active_count()
    wake_cores(0.005)
    core_distance()
    assert os.sched_getaffinity(0) == cores
    assert threading.active_count() == threads
    if before:
        assert set(os.listdir("/proc/self/fd")) == before


@several_cores
def test_a_core_that_is_taken_away_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the cores of a process are changed while it runs."""
    cores, threads = os.sched_getaffinity(0), threading.active_count()
    monkeypatch.setattr(module, "usable_cores", lambda: [min(cores), 1000])
    wake_cores(0.005)
    assert core_distance() is None
    assert os.sched_getaffinity(0) == cores
    assert threading.active_count() == threads


@several_cores
def test_memory_too_short_for_a_thread_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    monkeypatch.setattr(threading.Thread, "start", no_memory)
    wake_cores(0.005)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


@several_cores
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_cell_on_the_host_has_its_distances(framework: str) -> None:
    # In a process of its own it keeps freed memory, which would change this one.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "keep_freed_memory", lambda: False)
        measure = Measure(min_samples=3, min_seconds=0.01, max_seconds=0.5)
        measured, _ = run_cell(backend_of(framework), cell("V", framework, "train", 16), measure)
    assert measured.timing is not None
    assert measured.timing.core_distances is not None
    assert len(measured.timing.core_distances) == 2
    assert min(measured.timing.core_distances) > 0


def test_a_run_learns_that_cores_are_never_near() -> None:
    """Then cells are no longer asked to wake them again and again."""

    class Far:
        def run(self, job: Job, watch: object = None) -> Reply:
            asked.append(job.content["cores_may_be_near"])
            timing = records()[0].measurements.timing
            assert timing is not None
            far = timing.model_copy(update={"core_distances": [2 * FAR, 2 * FAR]})
            found = Measurements(timing=far, missing={"flops": "not counted"})
            return Reply("ok", result={"measurements": found.model_dump(mode="json")})

    asked: list[bool] = []
    runner = CellRunner(Measure(parity=False), "cpu", [], Silent())
    runner.hosts["torch"] = cast(Host, Far())
    for number in range(ASSUMED_NEAR + 2):
        runner.measure_cell(cell("V", "torch", "train", 8), number, "here")
    assert asked == [True] * (ASSUMED_NEAR + 1) + [False]


def test_an_outcome_that_later_rounds_take_over_is_no_new_reading() -> None:
    class TooLong:
        def run(self, job: Job, watch: object = None) -> Reply:
            timing = records()[0].measurements.timing
            assert timing is not None
            far = timing.model_copy(update={"core_distances": [2 * FAR, 2 * FAR]})
            found = Measurements(timing=far, missing={"flops": "not counted"})
            return Reply("timeout", result={"measurements": found.model_dump(mode="json")})

    runner = CellRunner(Measure(parity=False), "cpu", [], Silent())
    runner.hosts["torch"] = cast(Host, TooLong())
    for number in range(ASSUMED_NEAR + 2):
        runner.measure_cell(cell("V", "torch", "train", 8), number, "here")
    assert runner.usual_distance.is_near


@pytest.mark.parametrize("near", [True, False])
def test_the_process_of_a_cell_is_told_whether_waking_helps(
    near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the job that asks for the cell to the waking."""

    def told(cores_may_be_near: bool) -> None:
        asked.append(cores_may_be_near)

    asked: list[bool] = []
    monkeypatch.setattr(cost, "bring_cores_together", told)
    monkeypatch.setattr(cost, "keep_freed_memory", lambda: False)
    measure = Measure(min_samples=3, min_seconds=0.01, max_seconds=0.5)
    content = {
        "cell": cell("V", "torch", "forward", 16).model_dump(mode="json"),
        "measure": measure.model_dump(mode="json"), "parity": None, "programs": None,
        "folders": [None, None], "kernel": None, "cores_may_be_near": near,
    }  # fmt: skip
    stages = child._Stages(lambda reply: None, {})
    child._perform(backend_of("torch"), Job("cell", content, Limits(60.0, None, None)), stages)
    assert asked == [near]


def test_the_table_tells_how_much_far_cores_cost() -> None:
    """V takes 1.5 times as long with far cores, R was measured with near ones only."""
    found = list(with_distances(records(), [(1.2, 1.2), (1.2, 1.3), (1.2, 2.2), (1.1, 1.2)]))
    (table,) = (one for one in make_tables(run_of(found)) if one.name == "machine_speed")
    assert value(table, "cores far %") == pytest.approx(25)
    assert value(table, "far over near") == pytest.approx(1.5)
    (without,) = (one for one in make_tables(run_of(records())) if one.name == "machine_speed")
    assert "cores far %" not in [column.label for column in without.columns]


def with_distances(found: list[Record], pairs: list[tuple[float, float]]) -> Iterator[Record]:
    for one, pair in zip(found, pairs, strict=True):
        assert one.measurements.timing is not None
        timing = Timing(**one.measurements.timing.model_dump() | {"core_distances": list(pair)})
        measured = one.measurements.model_copy(update={"timing": timing})
        yield one.model_copy(update={"measurements": measured})


def test_cells_count_alike_in_how_much_far_cores_cost() -> None:
    near, far = FAR, FAR + 0.1
    names = ["a", "a", "a", "b", "b", "c"]
    seconds = [1.0, 1.0, 2.0, 1.0, 8.0, 5.0]
    distances = [near, near, far, near, far, far]
    assert far_over_near(names, seconds, distances) == pytest.approx(math.sqrt(2 * 8))
    assert far_over_near(["a"], [1.0], [near]) == "no cell has both"
    assert share_far([near, far, None]) == pytest.approx(0.5)
    assert share_far([None]) == "not known"
