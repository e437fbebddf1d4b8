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
from synthbench.run.orders import Order, make_orders
from synthbench.run.progress import Silent
from synthbench.run.runner import Summary, run_plan
from synthbench.run.shard_files import ShardWriter
from synthbench.run.shard_job import measure_shard, work_left
from synthbench.run_info import Machine
from synthbench.store import read_info, read_run
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite
from tests.test_further_rounds import SUITE, TIMES, UNTIL, MadeUp
from tests.test_kernel_search import Notes
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


def test_disturbed_cells_that_the_plan_has_no_longer_are_not_announced(tmp_path: Path) -> None:
    """R at both lengths has a warning; after a change of the suite, only one of them is left."""

    def warn(cell: Cell, number: int, attempt: int) -> bool:
        return (cell.variant, number, attempt) == ("R", 0, 0)

    run(tmp_path, MadeUp(warn), retries=0)
    plan, watcher, executor = planned(1), Notes(), MadeUp(warn)
    plan = replace(plan, cells=tuple(cell for cell in plan.cells if cell.seq_len == 8))
    run_plan(
        plan, tmp_path / "run", executor=executor, resume=True, allow_changed=True, observer=watcher
    )
    assert executor.asked[1:] == [Counter({"R": 1})]
    assert [note for note in watcher.notes if "disturbed" in note] == [
        "measuring 1 disturbed cells again"
    ]


def test_a_framework_that_is_lost_ends_the_repeats(tmp_path: Path) -> None:
    class Lost(Ends):
        def measure(self, work: Work) -> Iterator[Machine | Record]:
            for each in super().measure(work):
                if not (isinstance(each, Record) and each.attempt):
                    yield each

    executor = Lost(9)
    run(tmp_path, executor)
    assert executor.asked[1:] == [Counter({"R": 1})]


class Jobs(Ends):
    """Jobs that write records themselves; each ends before it has repeated anything."""

    stores_records = True

    def __init__(self, attempts: int, detach_at: int = 99) -> None:
        super().__init__(attempts)
        self.detach_at = detach_at  # the call that returns while its jobs go on

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        assert work.run_dir is not None
        writer = ShardWriter(work.run_dir, "000000000000", "an order")
        for each in super().measure(work):
            if len(self.asked) > self.detach_at:
                self.detached = True
                return
            if isinstance(each, Record):
                writer.store(each)
            yield each


def test_repeats_that_a_job_did_not_get_to_are_ordered(tmp_path: Path) -> None:
    executor = Jobs(1)
    run(tmp_path, executor)
    assert executor.asked[1:] == [Counter({"R": 1})]
    assert [one.attempt for one in of_r(tmp_path)] == [0, 1]


def test_a_run_is_not_finished_while_jobs_repeat(tmp_path: Path) -> None:
    summary = run(tmp_path, Jobs(9, detach_at=1))
    assert summary.detached and read_info(tmp_path / "run").finished is None
    executor = Jobs(9)
    assert not run(tmp_path, executor, resume=True).detached
    assert executor.asked[1:] == [Counter({"R": 1})] * 2
    assert read_info(tmp_path / "run").finished is not None


def test_no_round_is_ordered_after_one_that_goes_on_without_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TIMES, "FR", (1.0, 0.5))
    text = SUITE.format(rounds=UNTIL, retries=0, minutes="null")
    plan = make_plan(parse_suite(text, name="made_up", source="made_up"), "cpu")
    executor = Jobs(0, detach_at=1)
    summary = run_plan(plan, tmp_path / "run", executor=executor)
    assert [set(asked) for asked in executor.asked] == [{"V", "R", "D", "FR"}, {"V", "FR"}]
    assert summary.detached and read_info(tmp_path / "run").finished is None


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[MadeUp]:
    """What the jobs of shards measure with; R at length 8 is disturbed every time."""
    environment = read_environment(None)
    here = Machine(id=machine_id(environment), environment=environment)
    made: list[MadeUp] = []

    class Here(Ends):
        def __init__(self) -> None:
            super().__init__(9)
            made.append(self)

        def measure(self, work: Work) -> Iterator[Machine | Record]:
            for each in super().measure(work):
                is_record = isinstance(each, Record)
                yield each.model_copy(update={"machine": here.id}) if is_record else here

    monkeypatch.setattr("synthbench.run.shard_job.LocalExecutor", Here)
    return made


def ordered(folder: Path) -> Order:
    """An order for the shard of length 8."""
    plan = planned(2)
    cells = tuple(cell for cell in plan.cells if cell.seq_len == 8)
    return begun(folder / "run", replace(plan, cells=cells))


def test_jobs_count_the_repeats_of_earlier_orders(tmp_path: Path, jobs: list[MadeUp]) -> None:
    order = ordered(tmp_path)
    assert measure_shard(tmp_path / "run", order.shard.name, Silent())
    assert jobs[0].asked[1:] == [Counter({"R": 1})] * 2
    replace(order, places={(order.plan.cells[0].id, 2): 0}, id="later").write(tmp_path / "run")
    assert measure_shard(tmp_path / "run", order.shard.name, Silent())
    assert [sum(asked.values()) for asked in jobs[1].asked] == [1]
    assert [one.attempt for one in of_r(tmp_path)] == [0, 1, 2]


def test_a_job_that_is_ordered_to_repeat_waits_for_quiet_and_counts_it(
    tmp_path: Path, jobs: list[MadeUp], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []

    def wait() -> bool:
        waits.append(len(jobs))
        return True

    monkeypatch.setattr("synthbench.run.executors.base.wait_for_quiet", wait)
    order = ordered(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("synthbench.run.shard_job.measure_disturbed_again", lambda *_: None)
        assert measure_shard(tmp_path / "run", order.shard.name, Silent())
    (first,) = of_r(tmp_path)
    replace(order, places={(first.id, 0): 1}, id="again").write(tmp_path / "run")
    assert measure_shard(tmp_path / "run", order.shard.name, Silent())
    assert jobs[1].asked == [Counter({"R": 1})] * 2  # what was ordered, and one more
    assert waits == [2, 2]  # executors made by then
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
