"""A run laid out for tables and for the screen."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from synthbench.report.data.context import Context, context_of, variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.data.machines import kinds_of
from synthbench.report.data.noise import noise_of
from synthbench.report.data.quality import agreements_of, qualities_of
from synthbench.report.data.training_groups import groups_of
from synthbench.report.data.verdicts import noise_banner, verdicts_of
from synthbench.store import Run
from synthbench.tasks.cost import Cost


@dataclass(frozen=True)
class Prepared:
    """`grid` has the cells of every task, `cost_grid` only those of the task `cost`."""

    run: Run
    grid: Grid
    cost_grid: Grid
    context: Context


def prepare(run: Run) -> Prepared:
    """Lay out the records of a run, and judge its ratios and its trainings."""
    order = variant_order(run.info)
    kinds = kinds_of(run.info)
    grid = Grid(run.records, order, kinds)
    of_cost = [record for record in run.records if record.cell.task == Cost.name]
    cost_grid = grid if len(of_cost) == len(run.records) else Grid(of_cost, order, kinds)
    # Not of `grid`: where tasks differ, its keys are others, and no noise floor would be found.
    context = context_of(run, grid, noise_of(cost_grid, run.info))
    groups, margin = groups_of(grid.latest, order), context.noise.declared
    verdicts = verdicts_of(cost_grid, context.baseline, context.noise)
    banner = [text for text in [noise_banner(verdicts, context.noise)] if text]
    judged = dataclasses.replace(
        context,
        shared=(*banner, *context.shared),
        remarks=(*banner, *context.remarks),
        verdicts=verdicts,
        qualities=qualities_of(groups, context.baseline, margin),
        agreements=agreements_of(groups, margin),
    )
    return Prepared(run, grid, cost_grid, judged)
