"""Steps per second by length."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.tables.layout import (
    by_length,
)


def speed(grid: Grid, context: Context) -> Table:
    """Steps per second by length, with the half width of the interval."""
    note = "±% is half of the 95% interval of the median time of a step, in percent of it."
    metrics = ("steps_per_second", "half_width_percent")
    return by_length(grid, context, "speed", "Steps per second by length", note, metrics)
