"""All metrics by name: common to all tasks, of each task, and derived in tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from synthbench.errors import UnsupportedError
from synthbench.metrics import Better, Metric
from synthbench.tasks.base import Task
from synthbench.tasks.catalog import TASK_REGISTRY
from synthbench.tasks.common_metrics import COMMON_METRICS
from synthbench.tasks.derived_metrics import DERIVED, RESERVED


def recorded_metrics() -> Mapping[str, Metric]:
    """The metrics that records may have: common to all tasks, then of each known task.

    Raises UnsupportedError where two tasks declare one name differently.
    """
    return _recorded(tuple(TASK_REGISTRY.known().values()))


def metric_named(name: str) -> Metric:
    """The metric of this name; one of an unknown task is a plain number under its own name."""
    return recorded_metrics().get(name) or DERIVED.get(name) or Metric(name)


def better_in_row(column: Metric, task: str, label: str) -> Better:
    """Which numbers of a column are better in the row of this task and metric."""
    if column not in (DERIVED["learned"], DERIVED["learned_difference"]):
        return column.better
    declared = TASK_REGISTRY.known().get(task)
    metrics = {} if declared is None else declared.metrics
    return next((one.better for one in metrics.values() if one.label == label), "neither")


@lru_cache(maxsize=4)
def _recorded(tasks: tuple[type[Task], ...]) -> dict[str, Metric]:
    found = dict(COMMON_METRICS)
    owners = dict.fromkeys([*COMMON_METRICS, *RESERVED], "synthbench itself")
    for task in tasks:
        for name, metric in task.metrics.items():
            if found.get(name, metric) != metric or name in RESERVED:
                raise UnsupportedError(
                    f"metric {name} of task {task.name}: {owners[name]} uses this name for "
                    "something else; give the metric another name"
                )
            found[name] = metric
            owners.setdefault(name, f"task {task.name}")
    return found
