"""Which form was built for each mixer, and which kernels it chose."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row, key_columns, place, rows_by_pair

NO_CHOICE = "no choice"
NOT_TOLD = "not told"


def kernels(grid: Grid, context: Context) -> Table | None:
    """A row each framework, mode and variant: the form that was built and the kernels it chose.

    None for a run whose records tell of neither.
    """
    if grid.rounds["built_form"].isna().all():
        return None
    columns = key_columns(grid, "framework", "mode", "variant")
    columns += [Column("form"), Column("kernels")]
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        keys = [Key(setting, variant, framework, mode, n) for n in grid.lengths(setting)]
        texts = (_by_length(grid, keys, name) for name in ("built_form", "kernels"))
        rows.append((*place(grid, setting, framework, mode, variant), *texts))
    note = (
        "form: what was built, also where `auto` was asked for. kernels: what the form chose for "
        "this device and these shapes where several would do, by length where lengths differ."
    )
    title = "The form of each mixer, and the kernels it chose"
    return Table("kernels", title, note, context.shared, tuple(columns), rows)


def _by_length(grid: Grid, keys: Sequence[Key], name: str) -> str:
    """What the cells of these lengths tell: once, or by length where they differ."""
    lengths: dict[str, list[int]] = {}
    for key in keys:
        row = grid.cell(key)
        if row is None:
            continue
        text = str(row[name]) or NO_CHOICE
        if pd.isna(row["built_form"]):
            text = grid.missing(key) or NOT_TOLD
        lengths.setdefault(text, []).append(key.seq_len)
    if len(lengths) < 2:
        return next(iter(lengths), NOT_TOLD)
    return "; ".join(f"L={','.join(map(str, at))}: {text}" for text, at in lengths.items())
