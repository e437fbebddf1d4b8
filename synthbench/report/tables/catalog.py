"""The list of all tables: to add one, write its file and name its builder in TABLES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.prepared import Prepared, prepare
from synthbench.report.data.table import Table
from synthbench.report.tables.choices import choices
from synthbench.report.tables.cost import cost
from synthbench.report.tables.decode import decode
from synthbench.report.tables.devices import devices
from synthbench.report.tables.final_metrics import final_metrics
from synthbench.report.tables.forms import forms
from synthbench.report.tables.frameworks import frameworks
from synthbench.report.tables.kernels import kernels
from synthbench.report.tables.learning_curves import learning_curves
from synthbench.report.tables.machine_speed import machine_speed
from synthbench.report.tables.memory import memory
from synthbench.report.tables.memory_parts import memory_parts
from synthbench.report.tables.metrics import metrics
from synthbench.report.tables.noise import noise
from synthbench.report.tables.outcomes import outcomes
from synthbench.report.tables.parity import parity
from synthbench.report.tables.phases import phases
from synthbench.report.tables.quality import quality
from synthbench.report.tables.quality_frameworks import quality_frameworks
from synthbench.report.tables.ratios import ratios
from synthbench.report.tables.scaling import scaling
from synthbench.report.tables.speed import speed
from synthbench.report.tables.summary import summary
from synthbench.report.tables.throughput import throughput
from synthbench.report.tables.train_flops import train_flops
from synthbench.report.tables.utilisation import utilisation
from synthbench.report.tables.warnings import warnings
from synthbench.store import Run


def make_tables(run: Run) -> list[Table]:
    """The tables of a run in the order of TABLES, made only from its records."""
    return tables_from(prepare(run))


def tables_from(prepared: Prepared) -> list[Table]:
    """The tables of a run that is laid out, in the order of TABLES."""
    return list(each_table(prepared))


def each_table(prepared: Prepared) -> Iterator[Table]:
    """`tables_from`, one after the other: all tables of a large run take much memory."""
    for name, make in TABLES.items():
        shown = prepared.grid if name in FOR_EVERY_TASK else prepared.cost_grid
        if shown.records or not prepared.grid.records:
            table = make(shown, prepared.context)
            if table is not None:
                yield table


TABLES: dict[str, Callable[[Grid, Context], Table | None]] = {
    "train": partial(summary, mode="train"),
    "forward": partial(summary, mode="forward"),
    "decode": decode,
    "ratios": ratios,
    "noise": noise,
    "machine_speed": machine_speed,
    "forms": forms,
    "speed": speed,
    "utilisation": utilisation,
    "memory": memory,
    "memory_parts": memory_parts,
    "scaling": scaling,
    "cost": cost,
    "train_flops": train_flops,
    "frameworks": frameworks,
    "quality": quality,
    "quality_frameworks": quality_frameworks,
    "final_metrics": final_metrics,
    "learning_curves": learning_curves,
    "metrics": metrics,
    "devices": devices,
    "parity": parity,
    "kernels": kernels,
    "choices": choices,
    "throughput": throughput,
    "phases": phases,
    "warnings": warnings,
    "outcomes": outcomes,
}
# The other tables show what only the task `cost` measures.
FOR_EVERY_TASK = (
    "quality", "quality_frameworks", "final_metrics", "learning_curves", "metrics", "devices",
    "parity", "kernels", "warnings", "outcomes",
)  # fmt: skip
