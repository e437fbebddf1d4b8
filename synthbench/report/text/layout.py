"""What the text formats share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from synthbench.report.data.table import Column, Table

WIDER = 2  # spaces by which a column is at least wider than its heading


def is_text(column: Column) -> bool:
    """Whether a column has only text, which is left-aligned."""
    return column.metric is None


class Aligned(NamedTuple):
    """The lines of a table with all texts of a column in the same width."""

    heading: str
    rows: list[str]
    widths: list[int]  # of the columns


def aligned(
    table: Table, headings: Sequence[str], columns: Sequence[Sequence[str]], edges: Sequence[str]
) -> Aligned:
    """The texts of a table by column: text left-aligned, numbers right-aligned.

    `edges`: what a line begins with, what is between its columns, and what it ends with. It is what
    the package tabulate makes of them (`tests/test_text_layout.py`), in a tenth of its time.
    """
    stripped = [list(map(str.strip, texts)) for texts in columns]
    widths = [
        max(len(heading) + WIDER, max(map(len, texts), default=0))
        for heading, texts in zip(headings, stripped, strict=True)
    ]
    signs = ["-" if is_text(column) or not table.rows else "" for column in table.columns]
    begin, between, end = edges
    fields = [f"%{sign}{width}s" for sign, width in zip(signs, widths, strict=True)]
    template = begin + between.join(fields) + end
    rows = [template % row for row in zip(*stripped, strict=True)]
    return Aligned(template % tuple(headings), rows, widths)
