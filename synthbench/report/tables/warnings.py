"""Numbers that were taken while something else happened, and what that was."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import MARK, Column, Table
from synthbench.report.tables.layout import Row, key_columns, place


def warnings(grid: Grid, context: Context) -> Table:
    """A row for each warning of each record."""
    columns = key_columns(grid, "variant", "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True), Column("round"), Column("warning")]
    rows: list[Row] = []
    told: dict[Key, list[tuple[int, str]]] = {key: [] for key in grid.keys}
    for record in grid.records:
        entries = [(record.round, text) for text in record.measurements.warnings]
        told.setdefault(grid.key(record.cell), []).extend(entries)
    for key, entries in told.items():
        where = place(grid, key.setting, key.variant, key.framework, key.mode, key.seq_len)
        rows += [(*where, str(number), text) for number, text in sorted(set(entries))]
    disturbed = sum(bool(entries) for entries in told.values())
    note = (
        f"{disturbed} of {len(told)} cells were measured while something disturbed them; their "
        f"times are marked {MARK} in the tables of speed and stand as they were measured."
        if rows
        else "Nothing was seen to disturb any cell."
    )
    title = "Warnings: what else happened while cells were timed"
    return Table("warnings", title, note, context.shared, tuple(columns), rows)
