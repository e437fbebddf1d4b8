"""The warnings: what disturbed cells while they were timed."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import TWIN, Grid
from synthbench.report.data.table import MARK, Column, Table
from synthbench.report.tables.layout import Row, key_columns, key_values


def warnings(grid: Grid, context: Context) -> Table:
    """One row per warning of each measurement that counts."""
    columns = key_columns(grid, "variant", "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True), Column("round"), Column("warning")]
    rows: list[Row] = []
    by_cell: dict[str, list[tuple[int, str]]] = {}
    for (cell_id, number), texts in grid.disturbances.items():
        by_cell.setdefault(cell_id, []).extend((number, text) for text in texts)
    for key in grid.keys:
        variant = f"{key.variant} {TWIN}" if key.replica else key.variant
        keys = key_values(grid, key.setting, variant, key.framework, key.mode, key.seq_len)
        entries = by_cell.get(grid.ids.get(key, ""), [])
        rows += [(*keys, str(number), text) for number, text in sorted(set(entries))]
    note = (
        f"{len(by_cell)} of {len(grid.keys)} cells were disturbed while they were timed. Their "
        f"times are shown as measured and marked {MARK} in the other tables."
        if rows
        else "No disturbance was seen while the cells were timed."
    )
    title = "Warnings: what disturbed cells while they were timed"
    return Table("warnings", title, note, context.shared, tuple(columns), rows)
