"""The screen and tables on a terminal; a wide table is split into parts that repeat its keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from synthbench.printable import one_line
from synthbench.report.data.table import Column, Table
from synthbench.report.screen.screen import Line
from synthbench.report.text.layout import is_text

if TYPE_CHECKING:
    from rich.console import Console

PADDING = 2  # spaces between columns
LONGEST_TEXT = 60  # characters; longer text wraps
NARROWEST_TEXT = 12  # columns for a text that wraps


def print_screen(console: Console, lines: Sequence[Line]) -> None:
    """Print lines as they are: one that is wider than the console is neither wrapped nor cut."""
    for line in lines:
        _print_line(console, line.text, line.style, soft_wrap=True)


def print_tables(console: Console, tables: Sequence[Table]) -> None:
    """Print tables one after the other, and their common context once at the end."""
    for table in tables:
        print_table(console, table)
    for line in tables[0].context if tables else ():
        _print_line(console, line, "dim")


def print_table(console: Console, table: Table) -> None:
    """Print title, values and note; wider than the console rather than cutting a value."""
    _print_line(console, table.title, "bold")
    cells = table.shown
    if cells:
        for part in parts(table.columns, cells, console.width):
            _print_part(console, table, cells, part)
    _print_line(console, table.note, "dim")
    console.print()


def parts(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """The column positions of each part; each has the key columns.

    Groups stay together unless one is too wide, even with its texts wrapped.
    """
    widths = [
        min(max(map(len, (column.label, *column.group.split(), *texts))), LONGEST_TEXT)
        for column, texts in zip(columns, zip(*cells, strict=True), strict=True)
    ]
    keys = [i for i, column in enumerate(columns) if column.is_key]
    others = [i for i, column in enumerate(columns) if not column.is_key]
    blocks = [
        list(block)
        for _, block in groupby(others, key=lambda i: columns[i].group or columns[i].name)
    ]
    narrowest = [
        min(one, NARROWEST_TEXT) if is_text(column) and not column.is_key else one
        for one, column in zip(widths, columns, strict=True)
    ]
    room = width - sum(narrowest[i] + PADDING for i in keys)
    found: list[list[int]] = []
    for block in (piece for whole in blocks for piece in _pieces(whole, narrowest, room)):
        together = [*(found[-1] if found else keys), *block]
        if found and sum(widths[i] + PADDING for i in together) <= width:
            found[-1] = together
        else:
            found.append([*keys, *block])
    return found or [keys]


def _pieces(block: Sequence[int], widths: Sequence[int], room: int) -> list[list[int]]:
    """A group in as few pieces as there is room for; at least one column in each."""
    found: list[list[int]] = []
    for i in block:
        together = [*(found[-1] if found else []), i]
        if found and sum(widths[n] + PADDING for n in together) <= room:
            found[-1] = together
        else:
            found.append([i])
    return found


def _print_part(
    console: Console, table: Table, cells: Sequence[Sequence[str]], part: Sequence[int]
) -> None:
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, padding=(0, PADDING, 0, 0), pad_edge=False, header_style="bold")
    previous = None
    longest = {i: max(len(row[i]) for row in cells) for i in part}
    fits = sum(width + PADDING for width in longest.values()) <= console.width
    needed = 0
    for i in part:
        column = table.columns[i]
        wraps = is_text(column) and not column.is_key and not fits
        starts_group = column.group and column.group != previous
        previous = column.group
        heading = [*column.group.split(), column.label] if starts_group else [column.label]
        on_one_line = longest[i] <= LONGEST_TEXT and not wraps
        widest = max(longest[i], *map(len, heading))
        needed += (widest if on_one_line else min(widest, NARROWEST_TEXT)) + PADDING
        shown.add_column(
            Text("\n".join(map(one_line, heading))),
            justify="left" if is_text(column) else "right",
            vertical="bottom",
            no_wrap=on_one_line,
            overflow="fold",
        )
    for row in cells:
        shown.add_row(*(Text(row[i]) for i in part))
    width = console.width
    console.width = max(width, needed)  # rich cuts what is wider
    console.print(shown)
    console.width = width
    console.print()


def _print_line(console: Console, line: str, style: str, *, soft_wrap: bool = False) -> None:
    from rich.text import Text

    # As Text: no markup, no :emoji:.
    console.print(Text(one_line(line), style), soft_wrap=soft_wrap)
