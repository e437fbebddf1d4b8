"""What the builders of tables share: key columns, rows by length, the first known number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from synthbench.report.data.context import Context
from synthbench.report.data.grid import NO_CELL, NOT_MEASURED, Grid, Key
from synthbench.report.data.table import Column, Table, Value, metric_column

Row = tuple[Value, ...]


def key_columns(grid: Grid, *labels: str) -> list[Column]:
    """Key columns with these labels, after one for the setting where the cells differ in more."""
    settings = ["setting"] if grid.setting_fields else []
    return [Column(label, is_key=True) for label in (*settings, *labels)]


def place(grid: Grid, setting: str, *values: Value) -> Row:
    """The values of `key_columns`."""
    return (setting, *values) if grid.setting_fields else values


def rows_by_pair(grid: Grid) -> Iterator[tuple[str, str, str, str]]:
    """(setting, framework, mode, variant) of each row of a table by framework and mode."""
    for setting in grid.settings():
        for framework, mode in grid.pairs(setting):
            for variant in grid.variants(setting):
                yield setting, framework, mode, variant


def rows_by_mode(grid: Grid) -> Iterator[tuple[str, str, str]]:
    """(setting, mode, variant) of each row of a table whose columns are the frameworks."""
    for setting in grid.settings():
        for mode in grid.modes(setting):
            for variant in grid.variants(setting):
                yield setting, mode, variant


def first_known(grid: Grid, keys: Iterable[Key], column: str) -> Value:
    """The first number among cells that must agree in it; else the first word that says why not."""
    values = [grid.known(key, column) for key in keys]
    numbers = [value for value in values if not isinstance(value, str)]
    words = [value for value in values if value != NO_CELL]
    return [*numbers, *words, NOT_MEASURED][0]


def at_longest(grid: Grid) -> str:
    """The longest length, or the lengths where settings differ in their longest."""
    lengths = sorted({grid.longest(setting) for setting in grid.settings()})
    return f"length {' or '.join(map(str, lengths))}" if lengths else "no length"


def by_length(
    grid: Grid, context: Context, name: str, title: str, note: str, metrics: Sequence[str]
) -> Table:
    """A row each framework, mode and variant; for each length the metrics."""
    headings = key_columns(grid, "framework", "mode", "variant")
    for length in grid.lengths():
        headings += [metric_column(metric, f"L={length}") for metric in metrics]
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        cells = [Key(setting, variant, framework, mode, n) for n in grid.lengths()]
        values = [grid.value(key, metric) for key in cells for metric in metrics]
        rows.append((*place(grid, setting, framework, mode, variant), *values))
    return Table(name, title, note, context.shared, tuple(headings), rows)
