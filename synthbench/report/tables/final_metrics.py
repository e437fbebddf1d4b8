"""Every metric of the trainings at their end, also those that variants are not compared by."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row
from synthbench.report.tables.learning_layout import (
    directions,
    learning_keys,
    learning_values,
    mean_values,
)


def final_metrics(grid: Grid, context: Context) -> Table | None:
    """One row per metric and variant; None where each task has one metric, as in `quality`."""
    if not any(len(one.group.metrics) > 1 for one in context.qualities):
        return None
    columns = learning_keys(context, "framework", "length", "variant")
    columns += [Column("seeds", "exact_count")]
    columns += [Column(label, "learned") for label in ("mean", "low", "high")]
    rows: list[Row] = []
    for one in context.qualities:
        group, place = one.group, one.group.place
        for name in group.metrics:
            for variant in group.variants:
                values = list(group.final_values(variant, name).values())
                problem = next(iter(group.problems(variant).values()), NOT_MEASURED)
                mean = group.mean(values, name) if values else problem
                keys = (place.framework, place.seq_len, variant)
                row = learning_values(context, group, *keys, metric=name)
                rows.append((*row, len(values), *mean_values(group, mean, name)))
    note = (
        f"{directions(context)}At the last evaluation: mean over seeds with its 95% confidence "
        "interval, within the range of the metric. The table `quality` compares variants by the "
        "first metric of each task."
    )
    title = "Every metric at the end of training"
    return Table("final_metrics", title, note, context.shared, tuple(columns), rows)
