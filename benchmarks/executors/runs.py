"""Run a plan through each executor on this machine, one after the other, with one place each.

With one place, the seconds beside the cells are those of the executor: two places of one machine
would wait for each other's cells, because they share the device's lock.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import combinations
from pathlib import Path

from benchmarks.agreement import compare, read_ratios
from benchmarks.executors.measured import Agreed, Ran
from benchmarks.whole_run import run_whole
from synthbench.run.executors.base import Executor
from synthbench.run.executors.local import LocalExecutor
from synthbench.run.executors.ray_cluster import RayExecutor
from synthbench.run.executors.slurm import SlurmExecutor
from synthbench.run.progress import PlainProgress
from synthbench.run.shard import split_into_shards
from synthbench.store import read_run
from synthbench.suites.plan import Plan
from tests import ray_cluster, slurm_cluster

FIRST = "local"  # the run that all others are compared with
LOCAL_AGAIN = "local again"


def why_no_slurm() -> str:
    """Why no Slurm can be started here; empty if it can."""
    if importlib.util.find_spec("submitit") is None:
        return "submitit is not installed: pip install 'synthbench[slurm]'"
    return slurm_cluster.why_not() or ""


def why_no_ray() -> str:
    """Why no Ray can be started here; empty if it can."""
    found = importlib.util.find_spec("ray") is not None
    return "" if found else "ray is not installed: pip install 'synthbench[ray]'"


@contextlib.contextmanager
def on_slurm() -> Iterator[Executor]:
    """One node of a Slurm on this machine."""
    with slurm_cluster.running_cluster() as cluster:
        before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        try:
            yield SlurmExecutor([f"partition={slurm_cluster.ONE}"])
        finally:
            if before is None:
                del os.environ["SLURM_CONF"]
            else:
                os.environ["SLURM_CONF"] = before


@contextlib.contextmanager
def on_ray() -> Iterator[Executor]:
    """One node of a Ray cluster on this machine."""
    with ray_cluster.running_cluster(nodes=1) as cluster:
        yield RayExecutor(cluster.address)


@contextlib.contextmanager
def on_this_machine() -> Iterator[Executor]:
    """No cluster."""
    yield LocalExecutor()


Made = Callable[[], AbstractContextManager[Executor]]
# Name of a run -> its executor, why it cannot be had, and how it is started.
RUNS: Mapping[str, tuple[str, Callable[[], str], Made]] = {
    FIRST: ("local", lambda: "", on_this_machine),
    LOCAL_AGAIN: ("local", lambda: "", on_this_machine),
    "slurm": ("slurm", why_no_slurm, on_slurm),
    "ray": ("ray", why_no_ray, on_ray),
}


def folder_of(out: Path, name: str) -> Path:
    """The folder of a run."""
    return out / name.replace(" ", "-")


def run_through(plan: Plan, out: Path, name: str) -> Ran:
    """Run a plan through an executor; raises SynthbenchError if its cluster breaks."""
    executor, why_not, made = RUNS[name]
    if reason := why_not():
        return Ran(name, executor, skipped=reason)
    with made() as chosen:  # the cluster is there already: its start does not count
        begun = time.monotonic()
        run_whole(plan, folder_of(out, name), executor=chosen, observer=PlainProgress())
        seconds = time.monotonic() - begun
    records = read_run(folder_of(out, name)).records
    return Ran(
        name, executor, len(records), len(split_into_shards(plan.cells)), seconds,
        sum(record.wall_seconds for record in records),
    )  # fmt: skip


def agreements(out: Path, runs: list[Ran]) -> list[Agreed]:
    """How the ratios of each run agree with those of the first one."""
    found = []
    measured = [run.name for run in runs if not run.skipped]
    ratios = {name: read_ratios(folder_of(out, name))[0] for name in measured}
    for first, second in combinations(measured, 2):
        if first == FIRST:
            agreed = compare(ratios[first], ratios[second])
            found.append(
                Agreed(first, second, agreed.agreeing, agreed.shared, agreed.contradicting)
            )
    return found
