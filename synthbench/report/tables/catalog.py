"""The tables of a run, built from its records alone; the same records give the same tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from synthbench.report.data.context import Context, context_of, variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.tables.cost import cost
from synthbench.report.tables.forms import forms
from synthbench.report.tables.frameworks import frameworks
from synthbench.report.tables.kernels import kernels
from synthbench.report.tables.memory import memory
from synthbench.report.tables.memory_parts import memory_parts
from synthbench.report.tables.outcomes import outcomes
from synthbench.report.tables.parity import parity
from synthbench.report.tables.phases import phases
from synthbench.report.tables.ratios import ratios
from synthbench.report.tables.scaling import scaling
from synthbench.report.tables.speed import speed
from synthbench.report.tables.summary import summary
from synthbench.report.tables.train_flops import train_flops
from synthbench.report.tables.utilisation import utilisation
from synthbench.report.tables.warnings import warnings
from synthbench.store import Run


def make_tables(run: Run) -> list[Table]:
    """Every table of a run, in the order in which they are shown; those it has nothing for not."""
    grid = Grid(run.records, variant_order(run.info))
    context = context_of(run, grid)
    made = [make(grid, context) for make in TABLES.values()]
    return [table for table in made if table is not None]


TABLES: dict[str, Callable[[Grid, Context], Table | None]] = {
    "train": partial(summary, mode="train"),
    "forward": partial(summary, mode="forward"),
    "ratios": ratios,
    "forms": forms,
    "speed": speed,
    "utilisation": utilisation,
    "memory": memory,
    "memory_parts": memory_parts,
    "scaling": scaling,
    "cost": cost,
    "train_flops": train_flops,
    "frameworks": frameworks,
    "parity": parity,
    "kernels": kernels,
    "phases": phases,
    "warnings": warnings,
    "outcomes": outcomes,
}
