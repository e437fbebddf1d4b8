"""The executor `ray`: what it gives to whom, and runs on a real cluster of two nodes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from synthbench.errors import NotationError, PackageMissingError, UnsupportedError
from synthbench.measure.environment import read_environment
from synthbench.record import Record
from synthbench.report.text.files import write_tables
from synthbench.run.cell_runner import now, record_of
from synthbench.run.executors import ray_cluster
from synthbench.run.executors.base import Work
from synthbench.run.executors.ray_cluster import RESOURCE, RayExecutor, Todo
from synthbench.run.job import Reply
from synthbench.run.planning import plan_suite
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.run.shard import split_into_shards
from synthbench.store import list_runs, read_info, read_records, read_run
from synthbench.suites.plan import Plan
from synthbench.suites.suite import parse_suite
from tests.page_commands import commands_of, run_command

ROOT = Path(__file__).resolve().parents[1]
NEEDS_RAY = "the package ray is not installed: pip install '.[ray]'"
TINY = """
axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8, 16]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {rounds: 2, min_samples: 3, min_seconds: 0.001, max_seconds: 2, aa: false, ceiling: false,
          threads: 1, kernel_seconds: 0}
baseline: V
"""


def require_ray() -> None:
    """Skip the test where it cannot have a cluster."""
    pytest.importorskip("ray", reason=NEEDS_RAY)
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("clusters of several workers would find each other: make test-ray")


def plan(device: str = "cpu") -> Plan:
    return plan_suite(parse_suite(TINY, name="mine", source="mine.yaml"), device)


# --- what a machine has to measure of a shard -------------------------------------------------


def work_of(planned: Plan, **content: Any) -> Work:
    return Work(planned, split_into_shards(planned.cells), [], Silent(), **content)


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


# --- wrong calls ------------------------------------------------------------------------------


def test_an_address_of_the_client_is_refused() -> None:
    with pytest.raises(NotationError, match=r"--ray-address ray://head:10001: start the run on a"):
        RayExecutor("ray://head:10001").start(work_of(plan()))


@pytest.mark.parametrize("device", ["cuda:1", "cuda:0,cuda:1"])
def test_ray_chooses_the_devices(device: str) -> None:
    with pytest.raises(NotationError, match=r"name only their kind: --device cuda$"):
        RayExecutor().start(work_of(plan(device)))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PackageMissingError, match=r"pip install 'synthbench\[ray\]'"):
        RayExecutor().start(work_of(plan()))


# --- a real cluster ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes with a place each."""
    require_ray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "resources": {RESOURCE: 1}, "include_dashboard": False}
        found = Cluster(initialize_head=True, head_node_args=head)
        try:
            found.add_node(num_cpus=1, resources={RESOURCE: 1})
            yield found
        finally:
            found.shutdown()


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    require_ray()
    lines = commands_of("A Ray cluster")
    assert [line.split()[0] for line in lines] == ["ray", "synthbench"]
    try:
        for line in lines:
            run_command(line, tmp_path)
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if any("6399" in word for word in process.info["cmdline"] or []):
                process.kill()
    (run,) = list_runs(tmp_path / "results")
    assert read_info(run).executor == "ray"
    assert {record.outcome for record in read_records(run)} == {"ok"}


class Watcher(Silent):
    """Keeps notes, and does something when there are so many records."""

    def __init__(self, deeds: dict[int, Callable[[], None]] | None = None) -> None:
        self.deeds = dict(deeds or {})
        self.records = 0
        self.notes: list[str] = []
        self.begun: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def cell_started(self, cell: Any, round_number: int) -> None:
        self.begun.append(cell.id)

    def cell_finished(self, record: Record, *_: Any) -> None:
        self.records += 1
        self.deeds.pop(self.records, lambda: None)()


def workers() -> list[psutil.Process]:
    """The processes that Ray measures in."""
    return [
        process
        for process in psutil.process_iter()
        if "ray::RayPlace" in " ".join(process.cmdline() if process.is_running() else [])
    ]


def require_complete(run_dir: Path, planned: Plan) -> None:
    """Each cell is there in each round, once, and ok."""
    records = read_records(run_dir)
    expected = {(cell.id, number) for cell in planned.cells for number in (0, 1)}
    assert {(record.id, record.round) for record in records} == expected
    assert len(records) == len(expected)
    assert {record.outcome for record in records} == {"ok"}
    assert read_info(run_dir).finished is not None


def form_of(folder: Path) -> dict[str, list[str]]:
    """The tables in a folder: name -> the first line of each."""
    return {path.name: path.read_text().splitlines()[:1] for path in sorted(folder.glob("*.csv"))}


def test_a_suite_completes_with_the_tables_of_a_local_run(cluster: Any, tmp_path: Path) -> None:
    planned, observer = plan(), Watcher()
    run_plan(planned, tmp_path / "local")
    summary = run_plan(
        planned, tmp_path / "ray", observer=observer, executor=RayExecutor(cluster.address)
    )
    assert not summary.missing
    require_complete(tmp_path / "ray", planned)
    assert set(observer.begun) == {cell.id for cell in planned.cells}
    assert observer.notes[-1].startswith("ray: 2 shards, ")
    assert read_info(tmp_path / "ray").executor == "ray"
    forms = [form_of(write_tables(read_run(tmp_path / name))) for name in ("local", "ray")]
    assert forms[0]
    assert forms[0] == forms[1]


@pytest.mark.parametrize(
    ("node", "changed", "problem"),
    [
        ("the machine of the run", {}, r"commits .* and .* of synthbench"),
        ("node one", {"versions": {"numpy": "1.0"}}, r".*numpy 1\.0 and [0-9.]+;.*"),
    ],
)
def test_a_node_with_other_code_or_versions_is_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, node: str, changed: dict[str, Any], problem: str
) -> None:
    executor = RayExecutor(cluster.address)
    if changed:
        executor.reference = node, read_environment() | changed
    else:
        monkeypatch.setattr(ray_cluster, "source_digest", lambda: "another")
    message = rf"^{node} and .* \(Ray node [0-9a-f]+\) differ: {problem}; a run needs the same"
    try:
        with pytest.raises(UnsupportedError, match=message):
            executor.start(work_of(plan()))
    finally:
        executor.stop()


def test_a_killed_worker_and_a_lost_node_lose_and_double_nothing(
    cluster: Any, tmp_path: Path
) -> None:
    def kill() -> None:
        os.kill(workers()[0].pid, signal.SIGKILL)

    def remove() -> None:
        cluster.remove_node(next(iter(cluster.worker_nodes)))

    planned, observer = plan(), Watcher({1: kill, 4: remove})
    run_plan(planned, tmp_path / "run", observer=observer, executor=RayExecutor(cluster.address))
    require_complete(tmp_path / "run", planned)
    assert not observer.deeds
    assert any(note.startswith("lost a place of ") for note in observer.notes)


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    require_ray()
    with pytest.raises(UnsupportedError, match=r"no Ray cluster can be used at 127.0.0.1:1: .*"
                       r"--ray-address$"):  # fmt: skip
        run_plan(plan(), tmp_path / "run", executor=RayExecutor("127.0.0.1:1"))
    assert not (tmp_path / "run").exists()
