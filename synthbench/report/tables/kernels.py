"""Which form was built for each mixer, and which kernels it used."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair

ONLY_ONE = "only one"  # the form has one way to compute this
NOT_RECORDED = "not recorded"


def kernels(grid: Grid, context: Context) -> Table | None:
    """One row per framework, mode and variant: the form that was built and the kernels it used.

    None for a run whose records have neither.
    """
    if not grid.has("built_form"):
        return None
    columns = key_columns(grid, "framework", "mode", "variant")
    columns += [Column("form"), Column("kernels")]
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        keys = [Key(setting, variant, framework, mode, n) for n in grid.lengths(setting)]
        texts = (_by_length(grid, keys, name) for name in ("built_form", "kernels"))
        rows.append((*key_values(grid, setting, framework, mode, variant), *texts))
    note = (
        "form: what was built, also if the suite says `auto`. kernels: which of several possible "
        "kernels the form used for this device and these shapes; listed by length if they differ. "
        f"`{ONLY_ONE}`: the form has a single way to compute this."
    )
    title = "Form and kernels of each mixer"
    return Table("kernels", title, note, context.shared, tuple(columns), rows)


def _by_length(grid: Grid, keys: Sequence[Key], name: str) -> str:
    """The value in the cells of these lengths: once, or by length if they differ."""
    lengths: dict[str, list[int]] = {}
    for key in keys:
        row = grid.cell(key)
        if row is None:
            continue
        text = str(row[name]) or ONLY_ONE
        if bool(pd.isna(row["built_form"])):
            text = grid.missing(key) or NOT_RECORDED
        lengths.setdefault(text, []).append(key.seq_len)
    if len(lengths) < 2:
        return next(iter(lengths), NOT_RECORDED)
    return "; ".join(f"L={','.join(map(str, at))}: {text}" for text, at in lengths.items())
