"""What the table builders share: key columns, the order of rows, tables by length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from synthbench.report.data.context import Context
from synthbench.report.data.grid import NO_CELL, NOT_MEASURED, Grid, Key
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Column, Table, Value, metric_column

Row = tuple[Value, ...]


def key_columns(grid: Grid, *labels: str) -> list[Column]:
    """Key columns with these labels; a column `setting` first if cells differ in other fields."""
    settings = ["setting"] if grid.setting_fields else []
    return [Column(label, is_key=True) for label in (*settings, *labels)]


def key_values(grid: Grid, setting: str, *values: Value) -> Row:
    """The values of one row in `key_columns`."""
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
    """The first number among cells that should all have the same; else why it is missing."""
    values = [grid.known(key, column) for key in keys]
    numbers = [value for value in values if not isinstance(value, str)]
    reasons = [value for value in values if value != NO_CELL]
    return [*numbers, *reasons, NOT_MEASURED][0]


def at_longest(grid: Grid) -> str:
    """Names the longest length; several if it differs between settings."""
    lengths = sorted({grid.longest(setting) for setting in grid.settings()})
    return f"length {' or '.join(map(str, lengths))}" if lengths else "no length"


def by_length(
    grid: Grid, context: Context, name: str, title: str, note: str, metrics: Sequence[str]
) -> Table:
    """A table with one row per framework, mode and variant, and these metrics for each length."""
    headings = key_columns(grid, "framework", "mode", "variant")
    for length in grid.lengths():
        headings += [metric_column(metric, f"L={length}") for metric in metrics]
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        cells = [Key(setting, variant, framework, mode, n) for n in grid.lengths()]
        values = [grid.value(key, metric) for key in cells for metric in metrics]
        rows.append((*key_values(grid, setting, framework, mode, variant), *values))
    return Table(name, title, note, context.shared, tuple(headings), rows)


def why_missing(grid: Grid, *metrics: str) -> str:
    """Sentences for a table's note: which of these metrics had no counter, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for framework, missing in grid.counters:
        for metric in metrics:
            if why := missing.get(metric):
                frameworks = found.setdefault((metric, why), [])
                if framework not in frameworks:
                    frameworks.append(framework)
    return "".join(
        f" {metric_named(metric).label} of {' and '.join(frameworks)}: {NOT_MEASURED}, {why}."
        for (metric, why), frameworks in found.items()
    )
