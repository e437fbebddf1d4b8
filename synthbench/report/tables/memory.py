"""Peak memory by length."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.tables.layout import (
    by_length,
)

MB = "MB are 10^6 bytes; the peak holds parameters, optimizer, batch and what one step adds."


def memory(grid: Grid, context: Context) -> Table:
    """Peak memory by length."""
    title = "Peak memory by length"
    return by_length(grid, context, "memory", title, MB, ["peak_bytes"])
