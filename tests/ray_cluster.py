"""A real Ray cluster of two nodes on this machine, for tests, and small things to run on it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from synthbench.record import Record
from synthbench.run.executors.base import Work
from synthbench.run.executors.ray_connection import RESOURCE
from synthbench.run.planning import plan_suite
from synthbench.run.progress import Silent
from synthbench.run.shard import split_into_shards
from synthbench.suites.plan import Plan
from synthbench.suites.suite import parse_suite

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


@contextlib.contextmanager
def running_cluster(nodes: int = 2) -> Iterator[Any]:
    """A cluster with so many nodes of a place each, which is ended afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # others' memory is not ours to free
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "resources": {RESOURCE: 1}, "include_dashboard": False,
                # A node of a busy machine answers late; one that was killed refuses at once.
                "_system_config": {"health_check_timeout_ms": 120_000}}  # fmt: skip
        found = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(nodes - 1):
                found.add_node(num_cpus=1, resources={RESOURCE: 1})
            yield found
        finally:
            found.shutdown()


def plan(device: str = "cpu") -> Plan:
    """Two shards of two cells, in two rounds."""
    return plan_suite(parse_suite(TINY, name="mine", source="mine.yaml"), device)


def work_of(planned: Plan, **content: Any) -> Work:
    """Everything that a plan asks for."""
    return Work(planned, split_into_shards(planned.cells), [], Silent(), **content)


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
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "ray::RayPlace" in " ".join(process.cmdline()):
                found.append(process)
    return found
