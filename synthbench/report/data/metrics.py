"""All metrics by name: common to all tasks, of each task, and derived in tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from synthbench.errors import UnsupportedError
from synthbench.metrics import (
    Better,
    Metric,
    four_digits,
    full_integer,
    percent,
    scientific,
    si,
    significant,
    two_decimals,
)
from synthbench.suites.cell import FLAT_FIELDS
from synthbench.tasks.base import Task
from synthbench.tasks.catalog import TASK_REGISTRY
from synthbench.tasks.common_metrics import COMMON_METRICS

RECORD_FIELDS = ("id", "round", "outcome", "reason")  # columns of the frame that are not metrics

# Not in records: a table computes these, or they print a number like a length or a batch size.
DERIVED: dict[str, Metric] = {
    "utilisation": Metric("util %", "%", "higher", percent, scale=100),
    "scaling_efficiency": Metric(
        "scaling efficiency (same batch) %", "%", "higher", percent, scale=100
    ),
    "break_even_steps": Metric("break-even", "steps", "lower", full_integer),
    "ratio": Metric("ratio", "1", "higher", significant),
    "twin_ratio": Metric("A/A ratio", "1", "neither", significant),
    "noise_ratio": Metric("noise floor", "1", "lower", significant),
    "exponent": Metric("exponent", "1", "neither", two_decimals),
    "length": Metric("length", "1", "neither", significant),
    "share": Metric("share", "1", "neither", significant),
    "exact_count": Metric("count", "1", "lower", full_integer),
    "time_spread": Metric("spread %", "%", "lower", percent, scale=100),
    "far_share": Metric("cores far %", "%", "lower", percent, scale=100),
    "far_ratio": Metric("far over near", "1", "lower", significant),
    "p_value": Metric("p", "1", "neither", significant),
    "relative_error": Metric("error", "1", "lower", scientific),
    # Of trainings. The metric of a task is in the unit that the row names, and the row's metric
    # says which direction is better (`better_in_row`).
    "learned": Metric("mean", "1", "neither", four_digits),
    "learned_difference": Metric("difference", "1", "neither", significant),
    "framework_difference": Metric("difference", "1", "neither", significant),
    "trained_steps": Metric("steps", "1", "lower", four_digits),
    "trained_seconds": Metric("seconds", "s", "lower", four_digits),
    "trained_flops": Metric("FLOPs", "1", "lower", si),
    "trained_tokens": Metric("tokens", "1", "lower", si),
    "learned_loss": Metric("loss", "1", "lower", four_digits),
}


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
    reserved = {*FLAT_FIELDS, *RECORD_FIELDS, *DERIVED, "rounds"}
    owners = dict.fromkeys([*COMMON_METRICS, *reserved], "synthbench itself")
    for task in tasks:
        for name, metric in task.metrics.items():
            if found.get(name, metric) != metric or name in reserved:
                raise UnsupportedError(
                    f"metric {name} of task {task.name}: {owners[name]} uses this name for "
                    "something else; give the metric another name"
                )
            found[name] = metric
            owners.setdefault(name, f"task {task.name}")
    return found
