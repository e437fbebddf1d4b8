"""Jobs that measure a shard: whichever dies when, nothing is lost, doubled, or mixed."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synthbench.errors import ResultsError, UnsupportedError
from synthbench.measure.environment import read_environment
from synthbench.record import Record, latest
from synthbench.run import shard_job
from synthbench.run.executors.base import Work
from synthbench.run.orders import NODES, Order, make_orders, ordered_shards, read_order
from synthbench.run.progress import Silent
from synthbench.run.shard import split_into_shards
from synthbench.run.shard_files import Follower, ShardWriter
from synthbench.run.shard_job import STOPPED, measure_shard
from synthbench.run_files import locked
from synthbench.run_info import JobInfo, Machine, RunInfo
from synthbench.store import (
    SHARDS,
    create_run,
    read_info,
    read_jobs,
    read_run,
    shard_records,
    write_job,
)
from synthbench.suites.plan import Plan
from tests.test_runner import ROOT, plan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")


def work_of(planned: Plan, **content: Any) -> Work:
    return Work(planned, split_into_shards(planned.cells), [], Silent(), **content)


def begun(run_dir: Path, planned: Plan, **content: Any) -> Order:
    """A run with an order for its only shard."""
    settings = planned.settings.model_dump(mode="json")
    create_run(
        run_dir, RunInfo(suite="mine", settings=settings, device="cpu", started="2026-01-01")
    )
    (order,) = make_orders(work_of(planned, **content))
    order.write(run_dir)
    return order


def job(run_dir: Path, order: Order) -> subprocess.Popen[bytes]:
    """A job in a process of its own."""
    command = [sys.executable, "-m", "synthbench.run.shard_job", str(run_dir), order.shard.name]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


def records(run_dir: Path) -> list[Record]:
    return list(latest(read_run(run_dir).records))


def require_complete(run_dir: Path, order: Order) -> None:
    """Each cell and round of an order was measured, all in one machine's records."""
    found = Counter((record.id, record.round) for record in records(run_dir))
    assert found == dict.fromkeys(order.places, 1)
    assert {record.outcome for record in records(run_dir)} == {"ok"}
    assert len({record.machine for record in records(run_dir)}) == 1
    assert read_run(run_dir).damaged == []


def moved(path: Path, machine: str) -> None:
    """Have all records of a file measured by another machine."""
    own = {record.machine for record in records(path.parents[1])}
    text = path.read_text()
    for name in own:
        text = text.replace(f'"machine":"{name}"', f'"machine":"{machine}"')
    path.write_text(text)


@pytest.mark.long
def test_killed_stopped_and_continued_jobs_complete_a_shard(tmp_path: Path) -> None:
    order = begun(tmp_path / "run", plan("V", "R", rounds=8))
    assert read_order(tmp_path / "run", order.shard.name) == order
    assert ordered_shards(tmp_path / "run") == [order.shard.name]
    run_dir, follower, seen = tmp_path / "run", Follower(tmp_path / "run"), []
    for sent in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR2):
        earlier = len(records(run_dir))
        process = job(run_dir, order)
        while len(records(run_dir)) == earlier and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(sent)
        assert process.wait(60) == (-sent if sent == signal.SIGKILL else STOPPED)
        seen += list(follower.new_records())
        with shard_records(run_dir)[-1].open("ab") as file:
            file.write(b'{"torn')
    assert not any(job.finished for job in read_jobs(run_dir).values())
    before = [path.read_bytes() for path in shard_records(run_dir)]
    assert job(run_dir, order).wait(120) == 0
    assert [path.read_bytes() for path in shard_records(run_dir)][:3] == before
    require_complete(run_dir, order)
    assert {record.attempt for record in read_run(run_dir).records} == {0}
    assert [job.finished for job in read_jobs(run_dir).values()] == [False] * 3 + [True]
    seen += list(follower.new_records())
    assert sorted(r.key for r in seen) == sorted(r.key for r in read_run(run_dir).records)
    (machine,) = read_info(run_dir).machines
    assert machine.id == records(run_dir)[0].machine
    assert len(list((run_dir / "jobs" / NODES).iterdir())) == 4


@pytest.mark.long
def test_two_jobs_of_a_shard_at_once_double_nothing(tmp_path: Path) -> None:
    order = begun(tmp_path / "run", plan("V", "R", rounds=2))
    processes = [job(tmp_path / "run", order) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    require_complete(tmp_path / "run", order)
    lines = [len(path.read_text().splitlines()) for path in shard_records(tmp_path / "run")]
    assert len(lines) == 2 and sum(lines) >= len(order.places)
    assert len(list(Follower(tmp_path / "run").new_records())) == len(order.places)


@pytest.mark.long
def test_another_machine_measures_the_whole_shard(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    order = begun(run_dir, plan("V", "R", rounds=2))
    first = sorted(order.places)[:2]
    some = Order(order.plan, (), dict.fromkeys(first, 0))
    some.write(run_dir)
    assert measure_shard(run_dir, order.shard.name, Silent())
    moved(shard_records(run_dir)[0], "other-8-abcdef")
    order.write(run_dir)
    assert measure_shard(run_dir, order.shard.name, Silent())
    require_complete(run_dir, order)
    assert sorted((r.id, r.round) for r in records(run_dir) if r.attempt == 1) == first
    # Further rounds that the first machine measures: it has nothing to repeat but its own rounds.
    moved(shard_records(run_dir)[1], "other-8-abcdef")
    measured = records(run_dir)
    extra = make_orders(work_of(
        plan("V", "R", rounds=3),
        done={(r.id, r.round) for r in measured},
        attempts={(r.id, r.round): r.attempt + 1 for r in measured},
    ))  # fmt: skip
    assert {number for _, number in extra[0].places} == {2}
    extra[0].write(run_dir)
    assert measure_shard(run_dir, order.shard.name, Silent())
    assert len(records(run_dir)) == len(order.places) + len(extra[0].places)
    assert len({record.machine for record in records(run_dir)}) == 1


def test_machines_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = tmp_path / "run"
    order = begun(run_dir, plan("V"))
    other = ShardWriter(run_dir, "000000000000", "an order")
    environment = read_environment()
    versions = environment["versions"] | {"torch": "1.0"}
    other.add_machine(Machine(id="other", environment=environment | {"versions": versions}))
    (run_dir / "jobs" / NODES).mkdir(parents=True)
    (run_dir / "jobs" / NODES / other.name).write_text("node7")
    monkeypatch.setenv("SLURMD_NODENAME", "node8")
    both = r"node node7 and node node8 differ: torch 1\.0 and .*; a run needs the same versions"
    with pytest.raises(UnsupportedError, match=both):
        measure_shard(run_dir, order.shard.name, Silent())
    (refused,) = read_jobs(run_dir, order.shard.name).values()
    assert "node7" in refused.refused and refused.machine is None
    assert [machine.id for machine in read_info(run_dir).machines] == ["other"]
    Order(order.plan, (), order.places, code="0" * 64).write(run_dir)
    with pytest.raises(UnsupportedError, match="node node8 has another code of synthbench"):
        measure_shard(run_dir, order.shard.name, Silent())
    assert records(run_dir) == []


def test_no_crash_is_stored_of_a_cell_that_the_end_of_its_job_has_killed(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    order = begun(run_dir, plan("V"))
    asked: list[bool] = []
    sink = shard_job._Sink(run_dir, order, lambda: bool(asked))
    asked.append(True)
    with pytest.raises(shard_job.StoppedError):
        sink.store(_crashed(order))
    assert shard_records(run_dir) == []
    asked.clear()
    sink.store(_crashed(order))  # nobody has ended the job: the cell has crashed by itself
    assert len(shard_records(run_dir)) == 1


def _crashed(order: Order) -> Record:
    (cell,) = order.plan.cells
    return Record(
        id=cell.id, round=0, cell=cell, outcome="crashed", started="2026-01-01", wall_seconds=1
    )


def test_damage_of_a_shard_is_listed_and_its_facts_are_required(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    order = begun(run_dir, plan("V"))
    sink = ShardWriter(run_dir, order.shard.name, order.id)
    (run_dir / SHARDS / f"{sink.name}.jsonl").write_bytes(b"{}\n")
    sink.store(_crashed(order))
    read = read_run(run_dir)
    assert len(read.records) == 1
    assert str(read.damaged[0]).startswith(f"line 1 of shards/{sink.name}.jsonl is damaged")
    write_job(run_dir, sink.name, JobInfo(order=order.id))
    (run_dir / SHARDS / f"{sink.name}.json").write_text("{")
    with pytest.raises(ResultsError, match="cannot be read as the facts of a job"):
        read_info(run_dir)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_lock(*arguments: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")  # NFS, for a folder

    monkeypatch.setattr(fcntl, "flock", no_lock)
    with locked(tmp_path):
        pass
    monkeypatch.setattr(fcntl, "flock", _raising(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"), locked(tmp_path):
        pass


def _raising(error: Exception) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise error

    return fail
