"""Steps per second by length."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.tables.layout import (
    by_length,
)


def speed(grid: Grid, context: Context) -> Table:
    """One row per framework, mode and variant: steps per second by length, with its interval."""
    note = (
        "±%: half the width of the 95% confidence interval of the median step time, in percent; of "
        "several rounds, half of what their intervals span."
    )
    metrics = ("steps_per_second", "half_width_percent")
    return by_length(grid, context, "speed", "Steps per second by length", note, metrics)
