"""What the text formats share."""

from __future__ import annotations

from tabulate import tabulate

from synthbench.printable import one_line
from synthbench.report.data.table import Column, Table, for_reading


def is_text(column: Column) -> bool:
    """Whether a column has only text, which is left-aligned."""
    return column.metric is None


def readable(table: Table) -> list[list[str]]:
    """The values of every row as shown to people, each on one line."""
    return [
        [
            one_line(for_reading(column, value))
            for column, value in zip(table.columns, row, strict=True)
        ]
        for row in table.rows
    ]


def tabulated(table: Table, headings: list[str], rows: list[list[str]], form: str) -> str:
    """The table in one of tabulate's formats: text left-aligned, numbers right-aligned."""
    alignment = ["left" if is_text(column) else "right" for column in table.columns]
    return tabulate(rows, headings, form, colalign=alignment, disable_numparse=True)
