"""Options that several commands take, and how their text is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from synthbench.errors import NotationError

Plugin = Annotated[
    list[str],
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Import this module and take the mixers it defines. Repeatable.",
        show_default=False,
    ),
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where the runs are.")]
FrameworkOption = Annotated[
    list[str],
    typer.Option(
        "--framework", metavar="torch,jax", help="Frameworks, by comma.", show_default=False
    ),
]


def split_list(texts: Iterable[str]) -> list[str]:
    """Entries apart at commas outside parentheses and quotes: "V,FD(a=2, b=4)+V" holds two.

    Raises NotationError for an empty entry.
    """
    entries: list[str] = []
    for text in texts:
        depth, quote, entry = 0, "", ""
        for sign in text:
            if quote:
                quote = "" if sign == quote else quote
            elif sign in "\"'":
                quote = sign
            elif sign in "()":
                depth += 1 if sign == "(" else -1
            if sign == "," and depth <= 0 and not quote:
                entries.append(entry.strip())
                entry = ""
            else:
                entry += sign
        entries.append(entry.strip())
        if "" in entries:
            raise NotationError(f"{text!r} has an empty entry; write a list like V,FR(rank=32)+V")
    return entries


def split_lengths(texts: Iterable[str]) -> list[int]:
    """Whole numbers by comma; raises NotationError for anything else."""
    lengths: list[int] = []
    for entry in split_list(texts):
        if not entry.isdecimal():
            raise NotationError(f"length {entry!r} is no whole number; write --seq-len 128,256")
        lengths.append(int(entry))
    return lengths
