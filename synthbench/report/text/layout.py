"""What the text formats share."""

from __future__ import annotations

from tabulate import TableFormat, tabulate

from synthbench.report.data.table import Column, Table


def is_text(column: Column) -> bool:
    """Whether a column has only text, which is left-aligned."""
    return column.metric is None


def tabulated(
    table: Table, headings: list[str], rows: list[list[str]], form: str | TableFormat
) -> str:
    """The table in one of tabulate's formats: text left-aligned, numbers right-aligned."""
    alignment = ["left" if is_text(column) else "right" for column in table.columns]
    return tabulate(rows, headings, form, colalign=alignment, disable_numparse=True)
