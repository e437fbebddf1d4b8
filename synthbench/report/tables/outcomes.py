"""The cells without numbers, and why."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import TWIN, Grid
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import (
    Row,
    key_columns,
    key_values,
)


def outcomes(grid: Grid, context: Context) -> Table:
    """The cells without numbers, and why."""
    columns = key_columns(grid, "variant", "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [Column("outcome"), Column("rounds"), Column("reason")]
    rows: list[Row] = []
    for key in grid.keys:
        outcome, row = grid.missing(key), grid.cell(key)
        if outcome is None:
            continue
        reason, rounds = "no record yet", "0"
        if row is not None:
            of_cell = grid.outcomes_of(row["id"])
            rounds = f"{of_cell.count(row['outcome'])} of {len(of_cell)}"
            reason = " ".join(str(row["reason"]).split()) or "none given"
        variant = f"{key.variant} {TWIN}" if key.replica else key.variant
        keys = key_values(grid, key.setting, variant, key.framework, key.mode, key.seq_len)
        rows.append((*keys, outcome, rounds, reason))
    total = len(grid.keys)
    note = (
        f"{len(rows)} of {total} cells have no numbers." if rows else f"All {total} cells are ok."
    )
    title = "Cells without numbers"
    return Table("outcomes", title, note, context.shared, tuple(columns), rows)
