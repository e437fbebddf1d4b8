"""Disturbed cells are measured again: what that may replace, and how often it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from synthbench.measure.environment import machine_id, read_environment
from synthbench.record import Outcome, Record, latest
from synthbench.run.executors.base import Work
from synthbench.run.job_status import status_of
from synthbench.run.orders import make_orders
from synthbench.run.progress import Silent
from synthbench.run.runner import Summary, run_plan
from synthbench.run.shard_files import ShardWriter
from synthbench.run.shard_job import measure_shard, work_left
from synthbench.run_info import Machine
from synthbench.store import read_run
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.test_further_rounds import SUITE, MadeUp
from tests.test_shard_job import begun, work_of
from tests.test_tables import record


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that nobody else uses."""
    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", lambda: True)


class Ends(MadeUp):
    """R at length 8 has a warning in the first attempts of round 0; `end` says how it ends."""

    def __init__(self, attempts: int, end: Callable[[Record], Outcome] = lambda _: "ok") -> None:
        def warn(cell: Cell, number: int, attempt: int) -> bool:
            return (cell.variant, cell.seq_len, number) == ("R", 8, 0) and attempt < attempts

        super().__init__(warn)
        self.end = end

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        for each in super().measure(work):
            if isinstance(each, Record) and (each.cell.variant, each.cell.seq_len) == ("R", 8):
                each = each.model_copy(update={"outcome": self.end(each)})
            yield each


def planned(retries: int) -> Plan:
    text = SUITE.format(rounds=2, retries=retries, minutes="null")
    return make_plan(parse_suite(text, name="made_up", source="made_up"), "cpu")


def run(folder: Path, executor: MadeUp, retries: int = 2, resume: bool = False) -> Summary:
    return run_plan(planned(retries), folder / "run", executor=executor, resume=resume)


def of_r(folder: Path) -> list[Record]:
    """The records of R at length 8 in round 0."""
    records = read_run(folder / "run").records
    return [r for r in records if (r.cell.variant, r.cell.seq_len, r.round) == ("R", 8, 0)]


def test_a_repeat_that_fails_leaves_the_numbers(tmp_path: Path) -> None:
    executor = Ends(9, lambda record: "crashed" if record.attempt == 1 else "ok")
    run(tmp_path, executor)
    assert [one.outcome for one in of_r(tmp_path)] == ["ok", "crashed", "ok"]  # all are kept
    executor = Ends(9, lambda record: "timeout" if record.attempt else "ok")
    run(tmp_path / "other", executor)
    assert [one.outcome for one in of_r(tmp_path / "other")] == ["ok", "timeout", "timeout"]
    (counts,) = latest(of_r(tmp_path / "other"))
    assert (counts.outcome, counts.attempt, counts.warnings) == ("ok", 0, ["busy"])


def test_a_cell_that_failed_in_another_round_is_not_repeated(tmp_path: Path) -> None:
    """Its job would not be run: the failure would be copied."""
    executor = Ends(1, lambda record: "timeout" if record.round == 1 else "ok")
    run(tmp_path, executor)
    assert [one.outcome for one in of_r(tmp_path)] == ["ok"]
    assert len(executor.asked) == 1
    executor = Ends(1, lambda record: "crashed" if record.round == 1 else "ok")
    run(tmp_path / "other", executor)  # a crash may not happen again
    assert executor.asked[1:] == [Counter({"R": 1})]


def test_retries_are_those_of_the_whole_run(tmp_path: Path) -> None:
    run(tmp_path, Ends(9))
    assert [one.attempt for one in of_r(tmp_path)] == [0, 1, 2]
    for _ in range(2):
        executor = Ends(9)
        run(tmp_path, executor, resume=True)
        assert executor.asked == [Counter()]
    plan = planned(2)
    run_plan(plan, tmp_path / "run", executor=Ends(9), resume=True, retry=["disturbed"])
    assert [one.attempt for one in of_r(tmp_path)] == [0, 1, 2, 3]  # what was asked for


def test_what_was_not_a_repeat_is_not_one_of_the_retries(tmp_path: Path) -> None:
    """The first attempt had no numbers that could be disturbed."""
    run(tmp_path, Ends(9, lambda record: "ok" if record.attempt or record.round else "crashed"))
    assert [one.outcome for one in of_r(tmp_path)] == ["crashed"]
    run_plan(planned(2), tmp_path / "run", executor=Ends(9), resume=True, retry=["crashed"])
    assert [one.outcome for one in of_r(tmp_path)] == ["crashed", "ok", "ok", "ok"]


def test_a_framework_that_is_lost_ends_the_repeats(tmp_path: Path) -> None:
    class Lost(Ends):
        def measure(self, work: Work) -> Iterator[Machine | Record]:
            for each in super().measure(work):
                if not (isinstance(each, Record) and each.attempt):
                    yield each

    executor = Lost(9)
    run(tmp_path, executor)
    assert executor.asked[1:] == [Counter({"R": 1})]


def test_jobs_count_the_repeats_of_earlier_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = read_environment(None)
    here = Machine(id=machine_id(environment), environment=environment)

    class Here(Ends):
        def __init__(self) -> None:
            super().__init__(9)
            executors.append(self)

        def measure(self, work: Work) -> Iterator[Machine | Record]:
            for each in super().measure(work):
                is_record = isinstance(each, Record)
                yield each.model_copy(update={"machine": here.id}) if is_record else here

    executors: list[Here] = []
    monkeypatch.setattr("synthbench.run.shard_job.LocalExecutor", Here)
    plan = planned(2)
    short = replace(plan, cells=tuple(cell for cell in plan.cells if cell.seq_len == 8))
    first = begun(tmp_path / "run", short)
    assert measure_shard(tmp_path / "run", first.shard.name, Silent())
    assert executors[0].asked[1:] == [Counter({"R": 1})] * 2
    later = replace(first, places={(cell.id, 2): 0 for cell in short.cells[:1]}, id="later")
    later.write(tmp_path / "run")
    assert measure_shard(tmp_path / "run", first.shard.name, Silent())
    assert [sum(asked.values()) for asked in executors[1].asked] == [1]
    assert [one.attempt for one in of_r(tmp_path)] == [0, 1, 2]


def test_a_job_has_done_what_failed_when_it_was_ordered(tmp_path: Path) -> None:
    plan = planned(2)
    (order, _) = make_orders(work_of(plan, attempts={(plan.cells[0].id, 0): 1}))
    first = record(plan.cells[0]).model_copy(update={"machine": "a"})
    again = first.model_copy(update={"attempt": 1, "outcome": "timeout"})
    places = work_left(tmp_path, order, [first], "a", Silent()).attempts
    assert places == order.places and places[first.id, 0] == 1
    left = work_left(tmp_path, order, [first, again], "a", Silent()).attempts
    assert left == {place: 0 for place in places if place != (first.id, 0)}
    moved = work_left(tmp_path, order, [first, again], "b", Silent()).attempts
    assert moved == places | {(first.id, 0): 2}


def test_the_status_of_an_order_counts_a_repeat_that_failed(tmp_path: Path) -> None:
    plan = planned(2)
    order = begun(tmp_path / "run", replace(plan, cells=plan.cells[:1]))
    writer = ShardWriter(tmp_path / "run", order.shard.name, order.id)
    first = record(plan.cells[0]).model_copy(update={"machine": "a"})
    writer.store(first)
    replace(order, places={(first.id, 0): 1}).write(tmp_path / "run")
    assert [(one.done, one.total) for one in status_of(tmp_path / "run")] == [(0, 1)]
    writer.store(first.model_copy(update={"attempt": 1, "outcome": "timeout"}))
    assert [(one.done, one.total) for one in status_of(tmp_path / "run")] == [(1, 1)]
