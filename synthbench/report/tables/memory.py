"""Peak memory by length."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table
from synthbench.report.tables.layout import (
    by_length,
    why_missing,
)

MB = "MB: 10^6 bytes. Peak memory includes parameters, optimizer state, batch and activations."


def memory(grid: Grid, context: Context) -> Table:
    """One row per framework, mode and variant: peak memory by length."""
    title = "Peak memory by length"
    return by_length(
        grid, context, "memory", title, MB + why_missing(grid, "peak_bytes"), ["peak_bytes"]
    )
