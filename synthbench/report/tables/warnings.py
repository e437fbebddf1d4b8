"""The warnings: what disturbed cells while they were timed."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import MARK, Column, Table
from synthbench.report.tables.layout import Row, key_columns, key_values


def warnings(grid: Grid, context: Context) -> Table:
    """One row per warning of each record."""
    columns = key_columns(grid, "variant", "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True), Column("round"), Column("warning")]
    rows: list[Row] = []
    by_cell: dict[Key, list[tuple[int, str]]] = {key: [] for key in grid.keys}
    for record in grid.records:
        texts = record.warnings or grid.disturbances.get((record.id, record.round), [])
        if texts:
            entries = [(record.round, text) for text in texts]
            by_cell.setdefault(grid.key(record.cell), []).extend(entries)
    for key, entries in by_cell.items():
        keys = key_values(grid, key.setting, key.variant, key.framework, key.mode, key.seq_len)
        rows += [(*keys, str(number), text) for number, text in sorted(set(entries))]
    disturbed = sum(bool(entries) for entries in by_cell.values())
    note = (
        f"{disturbed} of {len(by_cell)} cells were disturbed while they were timed. Their times "
        f"are shown as measured and marked {MARK} in the other tables."
        if rows
        else "No disturbance was seen while the cells were timed."
    )
    title = "Warnings: what disturbed cells while they were timed"
    return Table("warnings", title, note, context.shared, tuple(columns), rows)
