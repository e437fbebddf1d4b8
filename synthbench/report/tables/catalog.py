"""The list of all tables: to add one, write its file and name its builder in TABLES."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from synthbench.report.data.context import Context, context_of, variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.tables.choices import choices
from synthbench.report.tables.cost import cost
from synthbench.report.tables.forms import forms
from synthbench.report.tables.frameworks import frameworks
from synthbench.report.tables.kernels import kernels
from synthbench.report.tables.memory import memory
from synthbench.report.tables.memory_parts import memory_parts
from synthbench.report.tables.metrics import metrics
from synthbench.report.tables.noise import noise
from synthbench.report.tables.outcomes import outcomes
from synthbench.report.tables.parity import parity
from synthbench.report.tables.phases import phases
from synthbench.report.tables.ratios import ratios
from synthbench.report.tables.scaling import scaling
from synthbench.report.tables.speed import speed
from synthbench.report.tables.summary import summary
from synthbench.report.tables.throughput import throughput
from synthbench.report.tables.train_flops import train_flops
from synthbench.report.tables.utilisation import utilisation
from synthbench.report.tables.warnings import warnings
from synthbench.store import Run
from synthbench.tasks.cost import Cost


def make_tables(run: Run) -> list[Table]:
    """The tables of a run in the order of TABLES, made only from its records."""
    order = variant_order(run.info)
    grid = Grid(run.records, order)
    of_cost = [record for record in run.records if record.cell.task == Cost.name]
    cost_grid = grid if len(of_cost) == len(run.records) else Grid(of_cost, order)
    context = context_of(run, grid)
    made: list[Table | None] = []
    for name, make in TABLES.items():
        shown = grid if name in FOR_EVERY_TASK else cost_grid
        if shown.records or not run.records:
            made.append(make(shown, context))
    return [table for table in made if table is not None]


TABLES: dict[str, Callable[[Grid, Context], Table | None]] = {
    "train": partial(summary, mode="train"),
    "forward": partial(summary, mode="forward"),
    "ratios": ratios,
    "noise": noise,
    "forms": forms,
    "speed": speed,
    "utilisation": utilisation,
    "memory": memory,
    "memory_parts": memory_parts,
    "scaling": scaling,
    "cost": cost,
    "train_flops": train_flops,
    "frameworks": frameworks,
    "metrics": metrics,
    "parity": parity,
    "kernels": kernels,
    "choices": choices,
    "throughput": throughput,
    "phases": phases,
    "warnings": warnings,
    "outcomes": outcomes,
}
# The other tables show what only the task `cost` measures.
FOR_EVERY_TASK = ("metrics", "parity", "kernels", "warnings", "outcomes")
