"""The executor `ray` without a cluster: who measures what, what places ask for, wrong calls."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synthbench.cli import main
from synthbench.errors import NotationError, PackageMissingError, UnsupportedError
from synthbench.record import Record, now
from synthbench.run.cell_runner import record_of
from synthbench.run.executors import base
from synthbench.run.executors.base import Work
from synthbench.run.executors.ray_cluster import RayExecutor
from synthbench.run.executors.ray_connection import GPU, RESOURCE, Demand
from synthbench.run.executors.ray_place import Started
from synthbench.run.executors.ray_pool import Place, Pool
from synthbench.run.executors.ray_todo import Todo
from synthbench.run.job import Reply
from synthbench.run.planning import plan_suite
from synthbench.run.shard import split_into_shards
from synthbench.run_info import Machine
from synthbench.suites.plan import Plan
from synthbench.suites.suite import parse_suite
from tests.kernel_choices import choice
from tests.ray_cluster import Watcher, plan, work_of

# --- what a machine has to measure of a shard -------------------------------------------------


def measured(planned: Plan, machine: str, shard: int = 0) -> list[Record]:
    """Round 0 of a shard's cells, as one machine has measured it."""
    cells = split_into_shards(planned.cells)[shard].cells
    return [record_of(cell, 0, now(), Reply("timeout", "slow"), machine) for cell in cells]


def todo(planned: Plan, records: list[Record]) -> Todo:
    done = {(record.id, record.round) for record in records}
    work = work_of(planned, done=done, attempts=dict.fromkeys(done, 1))
    found = Todo(work, list(work.shards), {})
    for record in records:
        found.add(record)
    return found


def places(part: Work | None) -> set[tuple[str, int]]:
    assert part is not None
    return {(cell.id, number) for number, cell in part.pending()}


def test_who_has_begun_a_shard_goes_on_with_it() -> None:
    planned = plan()
    records = measured(planned, "a")
    left = todo(planned, records)
    shard, other = left.work.shards
    assert left.take("b", {"a", "b"}) is other
    assert left.take("b", {"a", "b"}) is None
    assert left.take("a", {"a", "b"}) is shard
    part = left.part(shard, "a")
    assert places(part) == {(cell.id, 1) for cell in shard.cells}
    assert part is not None
    assert part.settled == part.earlier == records
    assert part.plan.cells == shard.cells


def test_another_machine_measures_a_shard_from_the_beginning() -> None:
    planned = plan()
    records = measured(planned, "gone")
    left = todo(planned, records)
    shard = left.take("b", {"b"})
    assert shard is left.work.shards[0]
    part = left.part(shard, "b")
    assert places(part) == {(cell.id, number) for cell in shard.cells for number in (0, 1)}
    assert part is not None
    assert {part.attempts[record.id, 0] for record in records} == {1}  # the first was attempt 0
    assert not part.settled


def test_nothing_is_left_of_a_shard_that_is_done() -> None:
    planned = plan()
    records = measured(planned, "a")
    again = [r.model_copy(update={"round": 1}) for r in records]
    left = todo(planned, [*records, *again])
    assert left.part(left.work.shards[0], "a") is None


def test_the_next_shards_of_a_machine_use_the_kernels_that_were_chosen_there() -> None:
    """Each shard adds its own choices; those of another machine stay there."""
    planned = plan()
    left = todo(planned, [])
    first, second = (choice(shard.cells[0]) for shard in left.work.shards)
    left.add_machine(Machine(id="a", choices=[first]))
    left.add_machine(Machine(id="a", choices=[second]))
    left.add_machine(Machine(id="b"))
    for machine, choices in (("a", [first, second]), ("b", []), ("c", None)):
        part = left.part(left.work.shards[0], machine)
        assert part is not None
        assert [each.choices for each in part.machines] == ([] if choices is None else [choices])


# --- what a place asks its node for -------------------------------------------------------------


def plan_on_gpus(devices: str) -> Plan:
    text = f"""
axes: {{variant: [V], framework: [torch], task: [copying], mode: [train], seq_len: [17], batch: [8],
       devices: {devices}}}
model: {{kind: decoder, d_model: 8, heads: 2, vocabulary: 32}}
"""
    found = plan_suite(parse_suite(text, name="mine", source="mine.yaml"), "cuda")
    assert not found.skipped, found.skipped
    return found


def test_a_place_is_a_node_of_processors_or_as_many_gpus_as_the_largest_cell_needs() -> None:
    node = {RESOURCE: 1, "CPU": 64}
    assert Demand.of(plan()).places_in(node) == 1
    assert "num_gpus" not in Demand.of(plan()).options()
    box = {RESOURCE: 8, GPU: 8}
    one, four = Demand.of(plan_on_gpus("[1]")), Demand.of(plan_on_gpus("[1, 4]"))
    assert (one.places_in(box), four.places_in(box)) == (8, 2)
    assert four.options()["num_gpus"] == four.options()["resources"][RESOURCE] == 4
    assert one.places_in({RESOURCE: 8, GPU: 2}) == one.places_in({RESOURCE: 2, GPU: 8}) == 2
    assert one.places_in({GPU: 8}) == 0


def test_nodes_with_too_few_gpus_are_refused_in_one_line() -> None:
    nodes = [{RESOURCE: 2, GPU: 2}, {RESOURCE: 4, GPU: 3}, {GPU: 8}]
    demand = Demand.of(plan_on_gpus("[1, 4]"))
    with pytest.raises(UnsupportedError) as refused:
        demand.require_offered(nodes, "auto")
    assert str(refused.value) == (
        "no node of the Ray cluster at auto has enough GPUs for a cell: the largest cell needs 4 "
        "(devices: 4), and nodes offer at most 3, with the resource synthbench 4; start a node "
        "with that many GPUs, and synthbench as many"
    )
    demand.require_offered([*nodes, {RESOURCE: 4, GPU: 4}], "auto")
    with pytest.raises(UnsupportedError, match="offers a place to measure; start each node with"):
        demand.require_offered([{GPU: 8}], "auto")


# --- wrong calls ------------------------------------------------------------------------------


def test_an_address_of_the_client_is_refused() -> None:
    with pytest.raises(NotationError, match=r"--ray-address ray://head:10001: start the run on a"):
        RayExecutor("ray://head:10001").start(work_of(plan()))


@pytest.mark.parametrize("device", ["cuda:1", "cuda:0,cuda:1"])
def test_ray_chooses_the_devices(device: str) -> None:
    with pytest.raises(NotationError, match=r"name only their kind: --device cuda$"):
        RayExecutor().start(work_of(plan(device)))


def test_a_list_of_devices_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["run", "--suite", "smoke", "--variants", "V", "--framework", "torch"]
    call += ["--device", "cuda:0,cuda:1", "--executor", "ray", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        main(call)
    assert ended.value.code == 2
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "cuda:0" in text]
    assert line.endswith("name only their kind: --device cuda")
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PackageMissingError, match=r"pip install 'synthbench\[ray\]'"):
        RayExecutor().start(work_of(plan()))


# --- before disturbed cells are measured again --------------------------------------------------


class Node:
    """An actor, and its method `wait_for_quiet`, which answers at once."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, 0
        self.wait_for_quiet = self

    def remote(self) -> Any:
        self.asked += 1
        return self.answer


class GoneError(Exception):
    """A node of the cluster has died."""


class Cluster:
    """What is used of the package ray here."""

    exceptions = SimpleNamespace(RayError=GoneError)

    def get(self, answers: list[Any]) -> list[Any]:
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


@pytest.mark.parametrize(
    ("answers", "expected"),
    [([True, True], True), ([True, False], False), ([True, GoneError()], False)],
)
def test_the_nodes_that_measure_must_be_quiet(
    answers: list[Any], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the machine that the run was started from, which may be a busy login node."""
    monkeypatch.setattr(base, "wait_for_quiet", lambda: not expected)
    about = Started("a node", {}, "a", "a kind", {})
    nodes = [Node(answer) for answer in answers]
    executor = RayExecutor()
    executor.ray = Cluster()
    executor.pool = Pool(executor.ray, "auto", Demand(1))
    executor.pool.places = [Place(node, None, None, about) for node in nodes]
    executor.pool.places.append(Place(starting := Node(False), None, "starting"))
    assert executor.wait_for_quiet() is expected
    assert [node.asked for node in [*nodes, starting]] == [1] * len(nodes) + [0]


# --- places that come late ------------------------------------------------------------------------


class Growing(Cluster):
    """Nodes that join while a run measures; a new place is always given by one with other code."""

    exceptions = SimpleNamespace(RayError=GoneError, RayTaskError=GoneError)

    def __init__(self, nodes: int) -> None:
        self.alive, self.asked = nodes, 0

    def nodes(self) -> Any:
        names = [f"node {number}" for number in range(self.alive)]
        return [{"NodeID": name, "Alive": True, "Resources": {RESOURCE: 1}} for name in names]

    def remote(self, **options: Any) -> Any:
        def start(device: str) -> Any:
            self.asked += 1
            starting = SimpleNamespace(remote=lambda work: "starting")
            return SimpleNamespace(node_name=Node("late"), start=starting)

        return lambda actor_class: SimpleNamespace(remote=start)

    def wait(self, awaited: list[Any], timeout: float = 0) -> tuple[list[Any], list[Any]]:
        return list(awaited), []

    def get(self, reference: Any) -> Any:
        return Started("late", {"code_sha256": "another"}, "b", "a kind", {})

    def kill(self, actor: Any) -> None: ...


def test_a_place_that_is_refused_is_not_asked_for_again_until_there_are_other_nodes() -> None:
    observer, cluster = Watcher(), Growing(2)
    pool = Pool(cluster, "auto", Demand(1))
    pool.places = [Place(Node(True), None, None, Started("a node", {}, "a", "a kind", {}))]
    work = replace(work_of(plan()), observer=observer)
    assert len(work.shards) == 2
    for nodes in (2, 3):
        cluster.alive, cluster.asked = nodes, 0
        observer.notes.clear()
        for _ in range(8):
            pool.ready(work)
        (note,) = observer.notes
        assert "the machine of the run and late differ" in note
        assert cluster.asked == nodes - 1
