"""What the text formats share."""

from __future__ import annotations

from tabulate import tabulate

from synthbench.report.data.table import Column, Table, for_reading


def is_text(column: Column) -> bool:
    """Whether a column holds words alone, which stand to the left."""
    return column.metric is None


def readable(table: Table) -> list[list[str]]:
    """The values of every row as people read them."""
    return [list(map(for_reading, table.columns, row)) for row in table.rows]


def tabulated(table: Table, headings: list[str], rows: list[list[str]], form: str) -> str:
    """The table in one of tabulate's formats: words to the left, numbers to the right."""
    alignment = ["left" if is_text(column) else "right" for column in table.columns]
    return tabulate(rows, headings, form, colalign=alignment, disable_numparse=True)
