"""What each variant has learned, compared with the baseline at equal steps, time and FLOPs."""

from __future__ import annotations

import math

from synthbench.analysis.learning import Axis, Reached, typical_cost
from synthbench.analysis.seeds import Judgement
from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid
from synthbench.report.data.noise import percentage
from synthbench.report.data.quality import At, Quality
from synthbench.report.data.table import Column, Table, Value, metric_column
from synthbench.report.data.trainings import Group, seeds_text
from synthbench.report.tables.layout import Row
from synthbench.report.tables.learning_layout import (
    difference_values,
    directions,
    learning_keys,
    learning_values,
    mean_values,
)

AXIS_NAMES: dict[Axis, str] = {"steps": "steps", "seconds": "time", "flops": "FLOPs"}
NEVER = "never"  # more than half of the seeds diverged
NO_TARGET = "no target"


def quality(grid: Grid, context: Context) -> Table | None:
    """One row per task, framework, length and variant; None for a run without trainings."""
    if not context.qualities:
        return None
    has_target = any(one.group.target is not None for one in context.qualities)
    columns = learning_keys(context, "framework", "length", "variant")
    columns += [Column("seeds")]
    for axis, name in AXIS_NAMES.items():
        heading = f"equal {name}"
        columns += [Column("at", f"trained_{axis}", heading)]
        columns += [Column(label, "learned", heading) for label in ("mean", "low", "high")]
        columns += [
            Column(label, "learned_difference", heading)
            for label in ("difference", "difference low", "difference high")
        ]
        columns += [Column("verdict", group=heading)]
    if has_target:
        columns += [Column("target", "learned", "to target"), Column("reached", group="to target")]
        columns += [metric_column(f"trained_{axis}", "to target") for axis in AXIS_NAMES]
    rows: list[Row] = []
    for one in context.qualities:
        group, place = one.group, one.group.place
        for variant in group.variants:
            row: list[Value] = [seeds_text(group, variant)]
            for axis in AXIS_NAMES:
                row += _at_equal(one, At(variant, axis))
            row += _to_target(group, variant) if has_target else []
            keys = (place.framework, place.seq_len, variant)
            rows.append((*learning_values(context, group, *keys), *row))
    title = f"What the variants learned: metric over seeds, difference to {context.baseline}"
    return Table("quality", title, _note(context, has_target), context.shared, tuple(columns), rows)


def _at_equal(one: Quality, at: At) -> list[Value]:
    budget = one.group.budgets[at.axis]
    values: list[Value] = [NOT_MEASURED if budget is None else budget]
    values += mean_values(one.group, one.means[at])
    return values + difference_values(one.group, one.differences[at])


def _to_target(group: Group, variant: str) -> list[Value]:
    """The target, how many seeds reached it, and the steps, seconds and FLOPs that took."""
    if group.target is None:
        return [NO_TARGET] * 5
    found = {axis: group.costs_to_target(variant, axis) for axis in AXIS_NAMES}
    reached = sum(one.reached for one in found["steps"])
    costs = [_cost_text(axis, costs) for axis, costs in found.items()]
    scaled = group.target * group.declared.scale
    return [scaled, f"{reached} of {len(found['steps'])}", *costs]


def _cost_text(axis: Axis, found: list[Reached]) -> Value:
    """A number, or in words what is known of a cost that is not reached."""
    if not found:
        return NOT_MEASURED
    typical = typical_cost(found)
    if typical.reached:
        return typical.spent
    if math.isinf(typical.spent):
        return NEVER
    metric = metric_column(f"trained_{axis}").declared
    assert metric is not None
    return f"> {metric.format(typical.spent)}"


def _note(context: Context, has_target: bool) -> str:
    baseline = context.baseline
    judged = [
        found
        for one in context.qualities
        for found in one.differences.values()
        if isinstance(found, Judgement)
    ]
    tested = sum(found.verdict != "one seed" for found in judged)
    parts = [
        f"{directions(context)}mean: over seeds, at the cost in `at`: the smallest total among the "
        "variants of the row's task, framework and length, linear between evaluations. Time is "
        f"that of training steps alone. difference: to {baseline}, within each seed that both "
        "have. low, high: 95% confidence intervals over seeds, by Student's t, within the range of "
        "the metric."
    ]
    if tested:
        parts.append(
            "`better` and `worse`: the difference is beyond the suite's margin, "
            f"{percentage(1 + context.noise.declared)} of the mean of {baseline}, and differs from "
            f"0 at 95% confidence, after Holm's correction for the variants of the row's task, "
            "framework and length, at each kind of cost by itself; equal steps is the primary one. "
            "`same`: the interval, widened for the same number of comparisons, lies within that "
            "margin."
        )
    if tested < len(judged):
        parts.append("`one seed`: the spread over seeds is not known, so there is no verdict.")
    if has_target:
        parts.append(
            "to target: the cost after which more than half of the seeds have reached the target, "
            "linear between evaluations; `> n`: at this cost, too few had. A training that "
            f"diverged never reaches it; `{NEVER}`: too many did."
        )
    return " ".join(parts)
