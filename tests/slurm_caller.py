"""Calls of synthbench on a Slurm for tests, and fixtures for them; skips where there is none."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import psutil
import pytest

from synthbench.record import latest
from synthbench.run.executors.slurm import shards_of_jobs
from synthbench.store import read_run
from tests.slurm_cluster import Cluster, running_cluster, why_not

pytest.importorskip("submitit", reason="needs the extra slurm: pip install -e '.[slurm]'")
if reason := why_not():
    pytest.skip(reason, allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]
# Two shards, a forward and a train step; a cell takes about a second.
SUITE = """
axes: {variant: [V, R], framework: [torch], mode: [forward, train], seq_len: [8]}
model: {kind: mixer, d_model: 8, heads: 2}
measure: {rounds: 3, min_samples: 3, min_seconds: 1, max_seconds: 1, aa: false, ceiling: false,
          kernel_seconds: 0, retries: 0, threads: 1}
baseline: V
"""
PLACES = 2 * 2 * 3  # variants, modes, rounds
SECONDS = 600.0  # for anything, on a machine that has other work too
# A node refuses a job that begins again within the second in which it was ended there ("Job
# credential revoked"), and Slurm then counts it as failed.
REQUEUE_SECONDS = 2.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster for all tests of a file: it starts in half a second."""
    with running_cluster() as made:
        yield made


class Caller:
    """Calls synthbench in a folder, as a person who is logged in on the cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.environment = cluster.environment | {"PYTHONPATH": str(ROOT)}
        self.begun: list[subprocess.Popen[str]] = []

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "synthbench", *arguments],
            cwd=self.folder, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.begun.append(process)
        return process

    def call(self, *arguments: str, code: int = 0, seconds: float = SECONDS) -> str:
        """What a command prints; it must end with this exit code."""
        process = self.begin(*arguments)
        printed, _ = process.communicate(timeout=seconds)
        assert process.returncode == code, printed
        return printed

    def run(self, *options: str) -> list[str]:
        """The arguments that run the suite."""
        return ["run", "--suite", "mine.yaml", "--device", "cpu", "--executor", "slurm",
                "--out", "out", *options]  # fmt: skip

    @property
    def measured(self) -> int:
        return len(read_run(self.folder / "out").records)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            log = "".join(p.read_text() for p in self.folder.glob("out/jobs/slurm/*.out"))
            assert time.monotonic() < deadline, log
            time.sleep(0.2)

    def requeue(self, job: str) -> None:
        """Requeue a job and let it begin again; one that completes first may stay as it is."""

        def done() -> bool:
            self.cluster.ask("scontrol", "requeue", job)  # which Slurm refuses while a job ends
            return self.has_restarted(job) or self.state(job) == "COMPLETED"

        self.until(done)
        if self.has_restarted(job):
            self.until_requeued(job)

    def until_requeued(self, job: str) -> None:
        """Wait until a job is in the queue again, and let it begin soon, not minutes later."""
        self.until(lambda: self.has_restarted(job))
        self.until(lambda: "PENDING" in self.state(job))
        time.sleep(REQUEUE_SECONDS)
        self.cluster.ask("scontrol", "update", f"JobId={job}", "StartTime=now")

    def has_restarted(self, job: str) -> bool:
        """Whether a job was requeued, as often as that may be."""
        shown = self.cluster.ask("scontrol", "show", "job", job)
        return re.search(r"Restarts=[1-9]", shown) is not None

    def state(self, job: str) -> str:
        return self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%T", "-j", job).strip()

    def jobs(self) -> dict[str, str]:
        """The last job of each shard -> the shard."""
        found = shards_of_jobs(self.folder / "out")
        return {job: shard for shard, job in {s: job for job, s in found.items()}.items()}

    def workers(self) -> list[psutil.Process]:
        """The processes that measure shards of this run."""
        own = str(self.folder / "out")
        return [p for p in psutil.process_iter(["cmdline"])
                if {"synthbench.run.shard_job", own} <= set(p.info["cmdline"] or ())]  # fmt: skip

    def require_complete(self, places: int = PLACES) -> None:
        """Every cell and round is there once, measured, in one machine's records."""
        run = read_run(self.folder / "out")
        assert Counter((r.id, r.round, r.attempt) for r in run.records).most_common(1)[0][1] == 1
        assert len(latest(run.records)) == places
        assert {(r.outcome, r.attempt) for r in run.records} == {("ok", 0)}
        assert run.damaged == [] and run.info.finished is not None
        assert [machine.id for machine in run.info.machines] == [run.records[0].machine]


@pytest.fixture
def caller(cluster: Cluster, tmp_path: Path) -> Iterator[Caller]:
    """In a folder with the suite mine.yaml."""
    (tmp_path / "mine.yaml").write_text(SUITE)
    made = Caller(cluster, tmp_path)
    yield made
    for process in made.begun:  # of a test that has failed
        process.kill()


def form(run_dir: Path, names: Collection[str]) -> dict[str, list[list[str]]]:
    """The headings of each table, and what each of its rows is about, of these names."""
    found = {}
    for path in sorted((run_dir / "tables").glob("*.csv")):
        heading, *rows = csv.reader(path.read_text().splitlines())
        if path.name == "warnings.csv":  # as many rows as there were disturbances
            rows = []
        found[path.name] = [heading, *([text for text in row if text in names] for row in rows)]
    assert found
    return found
