"""What the same variant learned in JAX and in PyTorch."""

from __future__ import annotations

from synthbench.analysis.seeds import Judgement
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row
from synthbench.report.tables.learning_layout import (
    difference_values,
    learning_keys,
    learning_values,
    mean_values,
)

DIFFER = "differ"  # the difference is certain; neither framework is meant to be better


def quality_frameworks(grid: Grid, context: Context) -> Table | None:
    """One row per task, length and variant; None unless both frameworks trained a variant."""
    if not context.agreements:
        return None
    columns = learning_keys(context, "length", "variant")
    columns += [
        Column(label, "learned", name) for name in FRAMEWORKS for label in ("mean", "low", "high")
    ]
    columns += [
        Column(label, "framework_difference", "jax - torch")
        for label in ("difference", "difference low", "difference high")
    ]
    columns += [Column("verdict", group="jax - torch")]
    rows: list[Row] = []
    for one in context.agreements:
        row: list[Value] = []
        for group, mean in zip((one.first, one.second), one.means, strict=True):
            row += mean_values(group, mean)
        row += difference_values(one.first, one.difference)[:-1]
        row += [_verdict(one.difference)]
        keys = learning_values(context, one.first, one.first.place.seq_len, one.variant)
        rows.append((*keys, *row))
    note = (
        "The metric at the last evaluation, mean over seeds, and the difference within each seed, "
        "with 95% confidence intervals within the range of the metric. Both frameworks start with "
        f"the same bits and see the same batches, so only rounding differs. `{DIFFER}`: the "
        "difference is beyond the suite's margin and differs from 0 at 95% confidence, after "
        "Holm's correction for the variants of the row's task and length. `same`: the interval, "
        "widened for the same number of comparisons, lies within the margin."
    )
    title = "torch against jax: what the variants learned"
    return Table("quality_frameworks", title, note, context.shared, tuple(columns), rows)


def _verdict(found: Judgement | str) -> str:
    if isinstance(found, str):
        return found
    return DIFFER if found.verdict in ("better", "worse") else found.verdict
