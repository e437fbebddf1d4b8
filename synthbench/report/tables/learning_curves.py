"""The learning curves: loss and metric at each evaluation, mean over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthbench.record import Evaluation
from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid
from synthbench.report.data.table import Column, Table, Value, metric_column
from synthbench.report.data.trainings import Group
from synthbench.report.tables.layout import Row
from synthbench.report.tables.learning_layout import (
    directions,
    learning_keys,
    learning_values,
    mean_values,
)

NO_STEP = "no step yet"  # the loss of training batches, before the first


def learning_curves(grid: Grid, context: Context) -> Table | None:
    """One row per evaluation of each variant; None for a run without evaluations."""
    columns = learning_keys(context, "framework", "length", "variant")
    columns += [Column("step", "exact_count", is_key=True), Column("seeds", "exact_count")]
    columns += [metric_column(f"trained_{name}") for name in ("tokens", "seconds", "flops")]
    columns += [Column(f"{split} loss", "learned_loss") for split in ("training", "held-out")]
    columns += [Column(label, "learned") for label in ("mean", "low", "high")]
    rows: list[Row] = []
    for one in context.qualities:
        group, place = one.group, one.group.place
        for variant in group.variants:
            for step, found in sorted(_by_step(group, variant).items()):
                keys = (place.framework, place.seq_len, variant, step)
                rows.append(
                    (*learning_values(context, group, *keys), len(found), *_values(group, found))
                )
    if not rows:
        return None
    note = (
        f"{directions(context)}One row per evaluation: means over the seeds that got there, also "
        "those that diverged later. tokens, seconds and FLOPs: of the training steps until then, "
        "without evaluations. training loss: mean since the evaluation before; both losses in "
        "nats. mean, low, high: of the metric, with its 95% confidence interval over seeds."
    )
    title = "Learning curves: loss and metric at each evaluation"
    return Table("learning_curves", title, note, context.shared, tuple(columns), rows)


def _by_step(group: Group, variant: str) -> dict[int, list[Evaluation]]:
    found: dict[int, list[Evaluation]] = {}
    for trained in group.variants[variant].values():
        for one in trained.evaluations:
            found.setdefault(one.step, []).append(one)
    return found


def _values(group: Group, found: Sequence[Evaluation]) -> list[Value]:
    metrics = [one.metrics[group.metric] for one in found if group.metric in one.metrics]
    return [
        _mean([float(one.tokens) for one in found]),
        _mean([one.seconds for one in found]),
        _mean([float(one.flops) for one in found if one.flops is not None]),
        _mean([one.train_loss for one in found if one.train_loss is not None], NO_STEP),
        _mean([one.loss for one in found]),
        *mean_values(group, group.mean(metrics) if metrics else NOT_MEASURED),
    ]


def _mean(values: Sequence[float], otherwise: str = NOT_MEASURED) -> Value:
    return float(np.mean(values)) if values else otherwise
