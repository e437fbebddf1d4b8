"""Rounds spread over machines: which machine measures what, and what intervals make of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from synthbench.analysis.comparison import Comparison, estimate, further_rounds, judge
from synthbench.backends.base import Backend
from synthbench.checkpoint import read_checkpoint
from synthbench.cli.app import app
from synthbench.errors import NotationError, UnsupportedError
from synthbench.measure.environment import machine_id
from synthbench.record import Measurements, Record, now
from synthbench.report.tables.catalog import make_tables
from synthbench.run.cell_runner import CellRunner, record_of
from synthbench.run.executors import several_places
from synthbench.run.executors.base import Work
from synthbench.run.executors.local import LocalExecutor
from synthbench.run.executors.one_place import OnePlace
from synthbench.run.executors.ray_todo import Todo
from synthbench.run.folders import CHECKPOINTS
from synthbench.run.host_client import Host
from synthbench.run.job import Reply
from synthbench.run.orders import make_orders, read_order
from synthbench.run.places import split_cores
from synthbench.run.planning import plan_suite
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.run.same_code import hardware_differences
from synthbench.run.shard import Shard, split_into_shards
from synthbench.run.shard_files import ShardWriter
from synthbench.run.shard_job import records_of
from synthbench.run.spread import deal_shards, note_on_machines
from synthbench.run_info import Machine
from synthbench.store import Run, read_info, read_records
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.suites.plan import Plan
from synthbench.suites.suite import parse_suite
from synthbench.tasks.base import TaskContext
from tests.kernel_choices import cell as made_up_cell
from tests.test_places_in_tables import FAST, SLOW, by, ceiling, prepared
from tests.test_tables import info

SUITE = """
axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8, 16]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {rounds: 5, machines: 2, min_samples: 3, min_seconds: 0.001, max_seconds: 2, aa: true,
          ceiling: false, threads: 1, kernel_seconds: 0}
baseline: V
"""


def plan(device: str = "cpu", text: str = SUITE) -> Plan:
    return plan_suite(parse_suite(text, name="mine", source="mine.yaml"), device)


def work_of(planned: Plan, **content: Any) -> Work:
    shards = split_into_shards(planned.cells, planned.settings.measure.machines)
    return Work(planned, shards, [], Silent(), **content)


def places(work: Work | None) -> set[tuple[str, int]]:
    assert work is not None
    return {(cell.id, number) for number, cell in work.pending()}


# --- intervals --------------------------------------------------------------------------------

ROUND_SPREAD, MACHINE_SPREAD = 0.01, 0.03  # of log ratios: between rounds, between machines
TABLES, VARIANTS = 200, 8


def table(
    rng: np.random.Generator, machines: int, rounds: int, *, shared: bool
) -> list[Comparison]:
    """A/A comparisons of one table; `shared`: a machine shifts all ratios by the same factor."""
    shifts = rng.normal(0, MACHINE_SPREAD, (1 if shared else VARIANTS, machines))
    shifts = np.broadcast_to(shifts, (VARIANTS, machines)).repeat(rounds, axis=1)
    values = shifts + rng.normal(0, ROUND_SPREAD, shifts.shape)
    names = tuple(f"machine {n}" for n in range(machines) for _ in range(rounds))
    return [Comparison(tuple(row), 0.001, "torch", names) for row in values]


def as_one_machine(comparisons: list[Comparison]) -> list[Comparison]:
    return [one._replace(machines=()) for one in comparisons]


def coverage(tables: list[list[Comparison]]) -> float:
    """The share of 95% intervals that contain the true ratio, 1."""
    found = [one.interval() for each in tables for one in estimate(each)]
    return float(np.mean([low <= 1 <= high for low, high in found]))


def wrong_tables(tables: list[list[Comparison]]) -> float:
    """The share of tables with at least one verdict that A/A ratios must not have."""
    wrong = {"faster", "slower"}
    return float(np.mean([any(j.verdict in wrong for j in judge(each, 1.03)) for each in tables]))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("machines", "rounds"), [(2, 3), (3, 3), (5, 2)])
def test_intervals_over_machines_cover_and_those_over_rounds_do_not(
    machines: int, rounds: int, shared: bool
) -> None:
    rng = np.random.default_rng(machines)
    tables = [table(rng, machines, rounds, shared=shared) for _ in range(TABLES)]
    naive = [as_one_machine(each) for each in tables]
    assert coverage(tables) >= 0.93
    assert coverage(naive) < 0.85
    assert wrong_tables(tables) <= 0.05 < wrong_tables(naive)


def test_of_one_machine_nothing_changes() -> None:
    rng = np.random.default_rng(1)
    several = as_one_machine(table(rng, 3, 2, shared=False))
    named = [one._replace(machines=("a",) * 6) for one in several]
    assert estimate(named) == estimate(several)


values = st.lists(st.floats(-1, 1), min_size=1, max_size=4)


@given(st.lists(values, min_size=2, max_size=4))
def test_the_interval_is_the_t_interval_of_the_means_of_machines(groups: list[list[float]]) -> None:
    names = tuple(str(n) for n, group in enumerate(groups) for _ in group)
    (one,) = estimate([Comparison(tuple(x for g in groups for x in g), 0.0, "", names)])
    means = [float(np.mean(group)) for group in groups]
    assert (one.machines, one.rounds) == (len(groups), sum(map(len, groups)))
    assert one.log_ratio == pytest.approx(np.mean(means), abs=1e-12)
    half = stats.t.ppf(0.975, len(groups) - 1) * stats.sem(means)
    low, high = map(math.log, one.interval())
    assert (high - low) / 2 == pytest.approx(half, abs=1e-9)


def test_machines_that_agree_are_not_surer_than_the_samples() -> None:
    alike = Comparison((0.1, 0.1, 0.1, 0.1), 0.02, "", ("a", "a", "b", "b"))
    (one,) = estimate([alike])
    assert one.error == pytest.approx(0.02 / math.sqrt(4))


def test_what_is_undecided_needs_further_machines() -> None:
    (one,) = estimate([Comparison((0.05, 0.05, 0.12, 0.12), 0.0, "", ("a", "a", "b", "b"))])
    more = further_rounds(one, math.log(1.03), 0.05, 0.05)
    assert more is not None
    for extra, decided in ((more - 1, False), (more, True)):
        number = 2 + extra
        half = stats.t.ppf(0.975, number - 1) * one.error * math.sqrt(2 / number)
        assert bool(half < one.log_ratio) is decided


# --- tables -----------------------------------------------------------------------------------

SHORT = (("V", "forward", 64), ("R", "forward", 64))
LONG = (("V", "forward", 128), ("R", "forward", 128))


def spread(*cells: tuple[str, str, int]) -> list[Record]:
    """Rounds 0 and 1 on machine a, 2 and 3 on b."""
    other = [r.model_copy(update={"round": r.round + 2}) for r in by("b", *cells)]
    return [*by("a", *cells), *other]


def test_machines_of_one_kind_are_a_source_of_variance_in_one_row() -> None:
    found = prepared(spread(*SHORT), ("a", FAST, 1e9), ("b", FAST, 1e9))
    assert found.grid.settings() == [""]
    judged = [j for key, j in found.context.verdicts.items() if key.variant == "R"]
    assert [(j.estimate.machines, j.estimate.rounds) for j in judged if not isinstance(j, str)] == [
        (2, 4)
    ]
    assert any("Every row is from 2 of them." in line for line in found.context.shared)
    (ratios,) = (one for one in make_tables(found.run) if one.name == "ratios")
    assert "Several machines measured the rounds" in ratios.note


def test_rows_of_other_numbers_of_machines_say_so() -> None:
    found = prepared([*spread(*SHORT), *by("a", *LONG)], ("a", FAST, 1e9), ("b", FAST, 1e9)).grid
    assert found.settings() == ["machines=1", "machines=2"]
    assert found.lengths("machines=1") == [128]
    assert [key for key in found.keys if found.missing(key)] == []


def test_kinds_stay_apart_from_numbers_of_machines() -> None:
    found = prepared([*spread(*SHORT), *by("c", *LONG)],
                     ("a", FAST, 1e9), ("b", FAST, 1e9), ("c", SLOW, 1e8)).grid  # fmt: skip
    assert found.settings() == [
        "machine=fast-2-cores machines=2",
        "machine=slow-1-cores machines=1",
    ]


def test_no_ratio_is_taken_across_machines() -> None:
    """Round 0 of V was measured on a, that of R on b: they share round 1 only."""
    v, r = by("a", SHORT[0]), by("a", SHORT[1])
    away = r[0].model_copy(update={"machine": "b"})
    found = prepared([*v, away, r[1]], ("a", FAST, 1e9), ("b", FAST, 1e9))
    (judged,) = (j for key, j in found.context.verdicts.items() if key.variant == "R")
    assert not isinstance(judged, str)
    assert (judged.estimate.rounds, judged.verdict) == (1, "one round")
    apart = [x.model_copy(update={"machine": "b"}) for x in r]
    none = prepared([*v, *apart], ("a", FAST, 1e9), ("b", FAST, 1e9)).context.verdicts
    assert [j for key, j in none.items() if key.variant == "R"] == ["no shared round"]


def test_the_noise_floor_counts_a_machine_once() -> None:
    records = spread(*SHORT)
    twins = [
        r.model_copy(update={"cell": (c := r.cell.changed(replica=1)), "id": c.id})
        for r in records
        if r.cell.variant == "V"
    ]
    found = prepared([*records, *twins], ("a", FAST, 1e9), ("b", FAST, 1e9))
    assert list(found.context.noise.rounds.values()) == [2]
    (noise,) = (one for one in make_tables(found.run) if one.name == "noise")
    columns = [column.name for column in noise.columns]
    assert [row[columns.index("rounds")] for row in noise.rows] == [4]


# --- planning ---------------------------------------------------------------------------------


def test_each_round_of_a_shard_is_in_one_part() -> None:
    planned = plan()
    work = work_of(planned)
    whole = Work(planned, split_into_shards(planned.cells), [], Silent())
    assert len(work.shards) == 2 * len(whole.shards) == 4
    assert len({shard.name for shard in [*work.shards, *whole.shards]}) == 6
    parts = [places(replace(work, shards=[shard])) for shard in work.shards]
    assert sum(map(len, parts)) == len(places(work))
    assert set().union(*parts) == places(whole)
    assert work.pending() == whole.pending()
    for shard, own in zip(work.shards, parts, strict=True):
        assert {number for _, number in own} == ({0, 2, 4}, {1, 3})[shard.part]


@given(st.integers(1, 5), st.integers(1, 5))
def test_parts_are_in_different_places_where_there_are_enough(parts: int, number: int) -> None:
    shards = split_into_shards(PLAN.cells, parts)
    dealt = deal_shards(shards, number)
    assert set(dealt) <= set(range(number))
    for siblings in {shard.siblings for shard in shards}:
        own = [n for shard, n in zip(shards, dealt, strict=True) if shard.siblings == siblings]
        assert len(set(own)) == min(parts, number)


PLAN = plan()


def test_orders_of_jobs_have_their_rounds(tmp_path: Path) -> None:
    planned = plan()
    orders = make_orders(work_of(planned))
    assert len({order.shard.name for order in orders}) == 4
    assert sorted(place for order in orders for place in order.places) == sorted(
        places(work_of(planned))
    )
    for order in orders:
        order.write(tmp_path)
        assert read_order(tmp_path, order.shard.name) == order
        assert {number % 2 for _, number in order.places} == {order.part}


def test_a_job_does_not_repeat_what_another_machine_has_of_other_rounds(tmp_path: Path) -> None:
    from synthbench.store import create_run

    planned = plan()
    create_run(tmp_path / "run", info(settings=planned.settings.model_dump(mode="json")))
    first, second, *_ = make_orders(work_of(planned))
    for order in (first, second):
        writer = ShardWriter(tmp_path / "run", order.shard.name, order.id)
        for cell_id, number in order.places:
            cell = next(c for c in order.plan.cells if c.id == cell_id)
            reply = Reply("timeout", "slow")
            writer.store(record_of(cell, number, now(), reply, f"machine-{order.part}"))
    for order in (first, second):
        found = records_of(tmp_path / "run", order)
        assert {(r.id, r.round) for r in found} == order.places.keys()
        assert {r.machine for r in found} == {f"machine-{order.part}"}


def todo(planned: Plan, records: list[Record]) -> Todo:
    done = {(record.id, record.round) for record in records}
    work = work_of(planned, done=done, attempts=dict.fromkeys(done, 1))
    found = Todo(work, list(work.shards), {})
    for record in records:
        found.add(record)
    return found


def measured(shard: Shard, number: int, machine: str) -> list[Record]:
    return [record_of(c, number, now(), Reply("timeout", "slow"), machine) for c in shard.cells]


def test_ray_gives_the_rounds_of_a_shard_to_different_machines() -> None:
    planned = plan()
    left = todo(planned, [])
    first, second, third, fourth = left.work.shards
    assert (first.siblings, third.siblings) == (second.siblings, fourth.siblings)
    assert left.take("a", {"a", "b"}) is first
    assert left.take("a", {"a", "b"}) is third
    assert left.take("a", {"a", "b"}) is None
    assert left.take("b", {"a", "b"}) is second
    left.shards.insert(0, second)  # a place of b was lost before it measured anything
    assert left.take("b", {"a", "b"}) is second
    assert left.take("a", {"a"}) is fourth  # there is no other machine any more


def test_ray_goes_on_where_a_round_was_measured() -> None:
    planned = plan()
    first, second, *_ = work_of(planned).shards
    left = todo(planned, [*measured(first, 0, "a"), *measured(second, 1, "b")])
    one, other, *_ = left.work.shards
    assert left.take("b", {"a", "b"}) is other
    assert places(left.part(other, "b")) == {(cell.id, 3) for cell in other.cells}
    assert left.take("a", {"a", "b"}) is one
    assert places(left.part(one, "a")) == {(c.id, n) for c in one.cells for n in (2, 4)}
    fresh = todo(planned, measured(first, 0, "a"))
    fresh.shards = [fresh.work.shards[1]]
    assert fresh.take("a", {"a", "b"}) is None  # it has the other rounds


def test_machines_of_other_kinds_are_refused() -> None:
    fast: dict[str, Any] = {"cpu": "Fast", "cores": [0], "nvidia": [{"name": "H100"}]}
    slow = fast | {"nvidia": [{"name": "T4"}]}
    assert hardware_differences(fast, slow, 1) == hardware_differences(fast, dict(fast), 2) == []
    (why,) = hardware_differences(fast, slow, 2)
    assert why.startswith("Fast, 1 cores, H100 and Fast, 1 cores, T4")


# --- settings ---------------------------------------------------------------------------------


def test_more_machines_than_rounds_are_refused() -> None:
    with pytest.raises(NotationError, match="at most 2 machines, one per round"):
        plan(text=SUITE.replace("rounds: 5, machines: 2", "rounds: 2, machines: 3"))
    suite = parse_suite(SUITE, name="mine", source="mine.yaml")
    assert plan_suite(suite, "cpu", machines=4).settings.measure.machines == 4
    for number in (0, 6):
        with pytest.raises(NotationError, match=rf"--machines {number}: give 1 to 5, as each mac"):
            plan_suite(suite, "cpu", machines=number)


def test_a_dry_run_says_how_rounds_are_spread(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE)
    words = ["run", "--suite", str(path), "--device", "cpu", "--dry-run", "--machines", "3"]
    shown = CliRunner().invoke(app, [*words, "--results", str(tmp_path)])
    assert shown.exit_code == 0
    assert "in 5 rounds spread over 3 machines" in shown.output


# --- several devices and slots of one machine -------------------------------------------------


def test_one_place_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(NotationError, match=r"machines: 2 .* this run has 1; give --slots"):
        run_plan(plan(), tmp_path / "run")
    with pytest.raises(NotationError, match=r"this run has 1; give --device with several devices"):
        run_plan(plan("cuda:0"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class MadeUp(OnePlace):
    """A place with a device that is not there."""

    def start(self, work: Work) -> Mapping[str, str]:
        return {}

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        environment: dict[str, Any] = FAST | {"place": self.place}
        own = machine_id(environment)
        yield Machine(id=own, environment=environment, ceilings=[ceiling(1e9)])
        assert all(record.cell.device == self.place for record in work.earlier)
        for number, cell in work.pending():
            assert cell.device == self.place == work.plan.device
            attempt = work.attempts.get((cell.id, number), 0)
            record = record_of(cell, number, now(), Reply("timeout", "made up"), own)
            yield record.model_copy(update={"attempt": attempt})


def test_rounds_are_spread_over_devices_of_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(several_places, "OnePlace", MadeUp)
    planned, run_dir = plan("cuda:0,cuda:1"), tmp_path / "run"
    assert {cell.device for cell in planned.cells} == {"cuda"}
    run_plan(planned, run_dir)
    records = read_records(run_dir)
    assert {(r.id, r.round) for r in records} == places(work_of(planned))
    assert {r.cell.device for r in records} == {"cuda"}
    where = {m.id: m.environment["place"] for m in read_info(run_dir).machines}
    shards = {c.id: s.siblings for s in split_into_shards(planned.cells) for c in s.cells}
    used: dict[tuple[str, int], set[str]] = {}
    for record in records:
        used.setdefault((shards[record.id], record.round), set()).add(where[record.machine])
    assert {len(names) for names in used.values()} == {1}  # a ratio is taken on one device
    for siblings in set(shards.values()):
        assert used[siblings, 0] == used[siblings, 2] != used[siblings, 1] == used[siblings, 3]

    lines = (run_dir / "records.jsonl").read_text().splitlines(keepends=True)
    (run_dir / "records.jsonl").write_text("".join(lines[:-3]))
    run_plan(planned, run_dir, resume=True)
    again = read_records(run_dir)
    assert sorted((r.id, r.round, r.machine) for r in again) == sorted(
        (r.id, r.round, r.machine) for r in records
    )


def test_no_round_goes_on_from_what_another_round_has_saved(tmp_path: Path) -> None:
    """Several machines measure them at the same time in the folder of one run."""
    has_state: list[bool] = []

    class Training:
        def run(self, job: Any, watch: object = None) -> Reply:
            state = Path(job.content["folders"][0]) / "state"
            has_state.append(state.exists())
            state.parent.mkdir(parents=True, exist_ok=True)
            state.touch()
            return Reply("crashed", "killed")

    runner = CellRunner(Measure(parity=False), "cpu", [], Silent(), tmp_path)
    runner.hosts["torch"] = cast(Host, Training())
    for number in (0, 1, 0):
        assert runner.measure_cell(made_up_cell(), number, "") is not None
    assert has_state == [False, False, True]


def test_devices_of_other_types_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Typed(MadeUp):
        def kind_of(self, device: str) -> str:
            return {"cuda:0": "H100", "cuda:1": "T4"}[device]

    monkeypatch.setattr(several_places, "OnePlace", Typed)
    executor = LocalExecutor()
    with pytest.raises(UnsupportedError, match=r"cuda:0 is H100; cuda:1 is T4; name devices of"):
        executor.start(work_of(plan("cuda:0,cuda:1")))
    executor.stop()


class Keeping(OnePlace):
    """A place whose cells only keep start values."""

    def start(self, work: Work) -> Mapping[str, str]:
        def run(job: Any, watch: object = None) -> Reply:
            cell, planned = (Cell.model_validate(job.content[name]) for name in ("cell", "planned"))
            assert cell.device == work.plan.device
            backend, measured = cast(Backend, None), Measurements()
            folder = Path(job.content["folders"][1])
            context = TaskContext(
                backend, cell, Measure(), measured, lambda *_: None, checkpoints=folder,
                planned=planned,
            )  # fmt: skip
            context.keep(context.start_values())
            return Reply("timeout", "made up")

        measure = work.plan.settings.measure
        self.runner = CellRunner(measure, work.plan.device, [], work.observer, work.run_dir)
        self.runner.hosts["torch"] = Mock(run=run)
        return {}


def test_kept_parameters_of_spread_rounds_are_those_of_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of cells on the devices that have measured them, which no record names."""
    monkeypatch.setattr(several_places, "OnePlace", Keeping)
    text = SUITE.replace("ceiling: false", "ceiling: false, parity: false")
    run_plan(plan("cuda:0,cuda:1", text), tmp_path / "run")
    cells = {record.id: record.cell for record in read_records(tmp_path / "run")}
    kept = {p.stem: read_checkpoint(p)[0] for p in (tmp_path / "run" / CHECKPOINTS).iterdir()}
    assert kept == cells


def test_fewer_machines_than_asked_for_are_noted() -> None:
    shards = work_of(PLAN).shards
    one = measured(shards[0], 0, "a") + measured(shards[1], 1, "a")
    two = measured(shards[2], 0, "a") + measured(shards[3], 1, "b")
    note = note_on_machines(shards, [*one, *two])
    assert note.startswith("the rounds of 1 of 2 shards were measured on fewer than 2 machines")
    assert note_on_machines(shards, two) == ""


@pytest.mark.long
@pytest.mark.skipif(len(split_cores(2)) < 2, reason="two slots need two physical cores")
def test_rounds_are_spread_over_slots(tmp_path: Path) -> None:
    text = SUITE.replace("rounds: 5", "rounds: 2").replace("[8, 16]", "[8]")
    summary = run_plan(plan(text=text), tmp_path / "run", executor=LocalExecutor(slots=2))
    records = read_records(tmp_path / "run")
    assert summary.outcomes == {"ok": 6}
    by_round = {n: {r.machine for r in records if r.round == n} for n in (0, 1)}
    assert [len(found) for found in by_round.values()] == [1, 1]
    assert by_round[0] != by_round[1]
    assert threading.active_count() < 20
    tables = make_tables(Run(Path("one"), read_info(tmp_path / "run"), records, []))
    assert "Every row is from 2 of them." in " ".join(tables[0].context)
