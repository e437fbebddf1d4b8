"""Output: a console for results, plain lines for messages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from synthbench import printable
from synthbench.errors import ResultsError

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 100  # columns, if the output goes to a file or a pipe


def console() -> Console:
    """Standard output: as wide as the terminal, or PLAIN_WIDTH without a terminal."""
    from rich.console import Console

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(width=width, highlight=False)


def complain(message: str) -> None:
    """Print a message to standard error."""
    typer.echo(printable.lines(message), err=True)


def say(message: object) -> None:
    """Print a message to standard output."""
    typer.echo(printable.lines(str(message)))


def write(text: str) -> None:
    """Write the text of a file to standard output, as UTF-8 whatever the terminal takes."""
    typer.echo(text.encode(), nl=False)


def require_folder_of(file: Path, option: str | None = "--out") -> None:
    """Raise ResultsError unless the folder of a file that will be written exists.

    No command creates folders for a file: a mistyped path would make them anywhere.
    """
    if not file.parent.is_dir():
        raise ResultsError(
            f"cannot write {file}: the folder {file.parent} does not exist; create it, or "
            + (f"choose another file with {option}" if option else "give another file")
        )


def print_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text in columns; the last column wraps if it is too wide."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        table.add_column(heading, no_wrap=position < len(headings) - 1, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable.lines(text)) for text in row))
    console().print(table)
