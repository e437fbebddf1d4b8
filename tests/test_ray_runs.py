"""Runs on a real Ray cluster of two nodes: complete, also after kills, and never two in one place.

Needs the extra `ray`: `make test-ray`.
"""

from __future__ import annotations

import csv
import importlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from synthbench.checkpoint import read_checkpoint
from synthbench.errors import UnsupportedError
from synthbench.measure.environment import read_environment
from synthbench.record import Training
from synthbench.report.text.files import write_tables
from synthbench.run.executors import ray_pool
from synthbench.run.executors.ray_cluster import RayExecutor
from synthbench.run.executors.ray_connection import RESOURCE, Demand, connect
from synthbench.run.executors.ray_pool import Pool
from synthbench.run.folders import CHECKPOINTS, IN_PROGRESS
from synthbench.run.planning import plan_suite
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.store import list_runs, read_info, read_records, read_run
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import load_suite, parse_suite
from synthbench.tasks.learning.saved_state import NAME
from tests.page_commands import commands_of, run_command
from tests.ray_cluster import Watcher, plan, require_ray, running_cluster, work_of, workers

# Of the same cells as in the suite, fewer samples: what is tested is that all of them arrive. That
# parity is checked, the commands of the page show.
QUICK = {"min_samples": 2, "min_seconds": 0.001, "max_seconds": 0.01, "threads": 1,
         "ceiling": False, "parity": False, "kernel_seconds": 0, "retries": 0}  # fmt: skip
# The columns that say what a row is about.
KEYS = ("framework", "mode", "variant", "length", "form")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes with a place each; what workers write stays in a folder of the tests."""
    require_ray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("nodes")))
        with running_cluster() as found:
            yield found


def require_complete(run_dir: Path, planned: Plan) -> None:
    """Each cell is there in each round, once, and ok."""
    records = read_records(run_dir)
    rounds = range(planned.settings.measure.least_rounds)
    expected = {(cell.id, number) for cell in planned.cells for number in rounds}
    assert {(record.id, record.round) for record in records} == expected
    assert len(records) == len(expected)
    assert {record.outcome for record in records} == {"ok"}
    assert read_info(run_dir).finished is not None


def form_of(folder: Path) -> dict[str, list[list[str]]]:
    """The tables in a folder: name -> its columns, then what each row is about."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        heading, *rows = csv.reader(path.read_text().splitlines())
        if path.name == "warnings.csv":  # as many rows as there were disturbances
            rows = []
        places = [heading.index(name) for name in KEYS if name in heading]
        found[path.name] = [heading, *([row[place] for place in places] for row in rows)]
    return found


@pytest.mark.long
def test_the_smoke_suite_completes_with_the_tables_of_a_local_run(
    cluster: Any, tmp_path: Path
) -> None:
    planned = plan_suite(load_suite("smoke"), "cpu")
    assert len({cell.variant for cell in planned.cells}) == 21
    assert set(planned.frameworks) == {"torch", "jax"}
    measure = planned.settings.measure.model_copy(update=QUICK)
    planned = replace(planned, settings=planned.settings.model_copy(update={"measure": measure}))
    observer = Watcher()
    run_plan(planned, tmp_path / "local")
    summary = run_plan(
        planned, tmp_path / "ray", observer=observer, executor=RayExecutor(cluster.address)
    )
    assert not summary.missing
    require_complete(tmp_path / "ray", planned)
    assert sorted(observer.begun) == sorted(cell.id for cell in planned.cells)
    assert re.match(r"ray: 2 shards, [0-9.]+ s per shard beside its cells", observer.notes[-1])
    assert read_info(tmp_path / "ray").executor == "ray"
    forms = [form_of(write_tables(read_run(tmp_path / name))) for name in ("local", "ray")]
    variants = {name for rows in forms[0].values() for row in rows[1:] for name in row}
    assert {cell.variant for cell in planned.cells} <= variants
    assert forms[0] == forms[1]


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
    records = read_records(run)
    assert {record.outcome for record in records} == {"ok"}
    parities = [record.measurements.parity for record in records]
    assert all(parity is not None and parity.passed for parity in parities)
    # One place has measured both shards, and chosen the kernels of each.
    (machine,) = read_info(run).machines
    assert {choice.cell.mode for choice in machine.choices} == {"forward", "train"}


# --- who may use a place ----------------------------------------------------------------------


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
    ray = connect(cluster.address)
    pool = Pool(ray, cluster.address, Demand())
    if changed:
        pool.reference = node, read_environment() | changed
    else:
        monkeypatch.setattr(ray_pool, "source_digest", lambda: "another")
    message = rf"^{node} and .* \(Ray node [0-9a-f]+\) differ: {problem}; a run needs the same"
    try:
        with pytest.raises(UnsupportedError, match=message):
            pool.start(work_of(plan()))
    finally:
        pool.stop()
        ray.shutdown()


def test_gpus_that_no_node_has_are_refused_at_once(cluster: Any) -> None:
    executor = RayExecutor(cluster.address)
    begun = time.monotonic()
    try:
        with pytest.raises(UnsupportedError, match=r"the largest cell needs 1, and nodes offer at"):
            executor.start(work_of(plan("cuda")))
    finally:
        executor.stop()
    assert time.monotonic() - begun < 60


class Actor:
    """Says where Ray has put it."""

    def where(self) -> tuple[str, list[str]]:
        """The node, and its GPUs."""
        context = importlib.import_module("ray").get_runtime_context()
        return context.get_node_id(), context.get_accelerator_ids()["GPU"]


def test_no_two_places_share_a_node_of_processors(cluster: Any) -> None:
    executor = RayExecutor(cluster.address)
    try:
        executor.start(work_of(plan()))
        pool = executor.pool
        assert pool is not None
        places = [place.about.node for place in pool.places if place.about is not None]
        assert len(places) == len(set(places)) == 2
        another = executor.ray.remote(**Demand().options())(Actor).remote()
        waiting = another.where.remote()
        assert executor.ray.wait([waiting], timeout=2)[0] == []
        pool.remove(pool.places[0])
        assert places[0].endswith(f"(Ray node {executor.ray.get(waiting)[0][:8]})")
        executor.ray.kill(another)
    finally:
        executor.stop()


def test_no_two_places_share_a_gpu(cluster: Any) -> None:
    """Ray believes how many GPUs a node says that it has; nothing here computes on them."""
    node = cluster.add_node(num_cpus=1, num_gpus=4, resources={RESOURCE: 4})
    ray = connect(cluster.address)
    try:
        for devices in (1, 2):
            options = Demand(devices, devices).options()
            actors = [ray.remote(**options)(Actor).remote() for _ in range(4 // devices)]
            found = [gpus for _, gpus in ray.get([actor.where.remote() for actor in actors])]
            assert [len(gpus) for gpus in found] == [devices] * len(actors)
            assert sorted(gpu for gpus in found for gpu in gpus) == ["0", "1", "2", "3"]
            another = ray.remote(**options)(Actor).remote()
            assert ray.wait([another.where.remote()], timeout=2)[0] == []
            for actor in (*actors, another):
                ray.kill(actor)
    finally:
        ray.shutdown()
        cluster.remove_node(node)


# --- what dies --------------------------------------------------------------------------------

COUNTING = "tests.plugins.counting"
TRAINING = """
axes: {{variant: [V], framework: [{framework}], task: [counting], mode: [train], seq_len: [8],
        batch: [6], dtype: [float64]}}
model: {{kind: decoder, d_model: 16, heads: 2, vocabulary: 31}}
tasks:
  counting: {{steps: 100, evaluations: 5, held_out: 20, keep: true, pause: {pause}}}
measure: {{ceiling: false, kernel_seconds: 0, threads: 1}}
"""


Trained = tuple[Training, dict[str, Any]]  # how a training went, and its parameters


def training(framework: str, pause: float) -> Plan:
    text = TRAINING.format(framework=framework, pause=pause)
    return make_plan(parse_suite(text, name="mine", source="mine.yaml"), "cpu")


def trained(planned: Plan, run_dir: Path, **options: Any) -> Trained:
    """Do the one training of a plan."""
    run_plan(planned, run_dir, plugins=[COUNTING], **options)
    (record,) = read_records(run_dir)
    assert record.outcome == "ok", record.reason
    assert record.measurements.training is not None
    parameters = read_checkpoint(run_dir / CHECKPOINTS / f"{record.id}.npz")[1]
    assert not (run_dir / IN_PROGRESS).exists()
    return record.measurements.training, parameters


def require_same_bits(found: Trained, whole: Trained) -> None:
    """The first was cut short once, the second never; nothing else but times differs."""
    assert (found[0].resumed, whole[0].resumed) == (1, 0)
    curves = [
        [evaluation.model_copy(update={"seconds": 0.0}) for evaluation in each.evaluations]
        for each, _ in (found, whole)
    ]
    assert len(curves[0]) == 6
    assert curves[0] == curves[1]
    assert found[1].keys() == whole[1].keys()
    for name, value in whole[1].items():
        np.testing.assert_array_equal(found[1][name], value)


@pytest.mark.long
def test_a_training_goes_on_with_the_same_bits_after_its_worker_was_killed(
    cluster: Any, tmp_path: Path
) -> None:
    states: list[Path] = []

    def kill() -> None:
        deadline = time.monotonic() + 120
        while not states and time.monotonic() < deadline:
            states.extend((tmp_path / "ray").glob(f"{IN_PROGRESS}/*/{NAME}"))
            time.sleep(0.05)
        for worker in workers():
            worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    observer, executor = Watcher(), RayExecutor(cluster.address)
    found = trained(training("torch", 0.05), tmp_path / "ray", observer=observer, executor=executor)
    killer.join()
    assert states
    assert any(note.startswith("lost a place of ") for note in observer.notes)
    require_same_bits(found, trained(training("torch", 0.0), tmp_path / "local"))


SOMEBODY = {"name": "somebody else", "namespace": "tests"}


def occupy_head(cluster: Any) -> None:
    """Somebody else takes the place of the head node, so that cells run on the other one."""
    ray = connect(cluster.address)
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    pinned = strategies.NodeAffinitySchedulingStrategy(cluster.head_node.node_id, soft=False)
    options = {**Demand().options(), **SOMEBODY, "lifetime": "detached"}
    actor = ray.remote(**options, scheduling_strategy=pinned)(Actor).remote()
    ray.get(actor.where.remote())
    ray.shutdown()


@pytest.mark.long
def test_a_training_goes_on_with_the_same_bits_on_another_node_after_its_node_died(
    cluster: Any, tmp_path: Path
) -> None:
    states: list[Path] = []
    (doomed,) = cluster.worker_nodes
    ray = importlib.import_module("ray")

    def kill() -> None:
        deadline = time.monotonic() + 120
        while not states and time.monotonic() < deadline:
            states.extend((tmp_path / "ray").glob(f"{IN_PROGRESS}/*/{NAME}"))
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)  # SIGKILL for its raylet and workers
        ray.kill(ray.get_actor(**SOMEBODY))  # the head is free now

    killer = threading.Thread(target=kill)
    observer, executor = Watcher(), RayExecutor(cluster.address)
    occupy_head(cluster)
    try:
        killer.start()
        planned = training("torch", 0.05)
        found = trained(planned, tmp_path / "ray", observer=observer, executor=executor)
    finally:
        killer.join()
        cluster.add_node(num_cpus=1, resources={RESOURCE: 1})
    assert states
    assert any(note.startswith("lost a place of ") for note in observer.notes)
    require_same_bits(found, trained(training("torch", 0.0), tmp_path / "local"))


class Interrupter(Silent):
    """Presses Ctrl-C when a training has saved its state."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir

    def cell_progressed(self, cell: Any, text: str, seconds_left: float) -> None:
        if list(self.run_dir.glob(f"{IN_PROGRESS}/*/{NAME}")):
            raise KeyboardInterrupt


@pytest.mark.long
def test_a_training_goes_on_with_the_same_bits_when_its_run_is_resumed(
    cluster: Any, tmp_path: Path
) -> None:
    planned, run_dir = training("jax", 0.08), tmp_path / "ray"
    summary = run_plan(
        planned, run_dir, plugins=[COUNTING], observer=Interrupter(run_dir),
        executor=RayExecutor(cluster.address),
    )  # fmt: skip
    assert summary.interrupted
    assert read_records(run_dir) == []
    found = trained(planned, run_dir, resume=True, executor=RayExecutor(cluster.address))
    require_same_bits(found, trained(training("jax", 0.0), tmp_path / "local"))


@pytest.mark.long
def test_a_killed_worker_and_a_killed_node_lose_and_double_nothing(
    cluster: Any, tmp_path: Path
) -> None:
    def kill_worker() -> None:
        os.kill(workers()[0].pid, signal.SIGKILL)

    def kill_node() -> None:  # SIGKILL for its raylet and all its workers
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    planned, observer = plan(), Watcher({1: kill_worker, 4: kill_node})
    try:
        run_plan(
            planned, tmp_path / "run", observer=observer, executor=RayExecutor(cluster.address)
        )
    finally:
        cluster.add_node(num_cpus=1, resources={RESOURCE: 1})
    require_complete(tmp_path / "run", planned)
    assert not observer.deeds
    assert any(note.startswith("lost a place of ") for note in observer.notes)


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    require_ray()
    with pytest.raises(UnsupportedError, match=r"no Ray cluster can be used at 127.0.0.1:1: .*"
                       r"--ray-address$"):  # fmt: skip
        run_plan(plan(), tmp_path / "run", executor=RayExecutor("127.0.0.1:1"))
    assert not (tmp_path / "run").exists()
