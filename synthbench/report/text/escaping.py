"""Text of records as each format writes it, so that it is read back as the same text.

Every text that comes from a record or from run.json passes one of these functions, or
`synthbench.printable` where it is shown on a terminal or in a figure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tabulate import LATEX_ESCAPE_RULES

from synthbench.printable import each_distinct, one_line

# GitHub reads the `_` of tie_query and the `&` of "a & b" as they are; the tables stay readable.
_MARKUP = r"[\\`\[$|]|(?<! )~|~(?! )|(?<![^\W_])_|&(?=#|\w+;)"
_IN_CELL = re.compile(rf"{_MARKUP}|\*")
_IN_PROSE = re.compile(rf"{_MARKUP}|(?<=\S)\*|\*(?![\s:])")  # "*: a mark" is no emphasis
_MARKS = "\\`[$|~_&*<"  # one of them is in everything that is escaped in a cell
_CODE = re.compile(r"(?<![`\\])(`[^`]+`)(?!`)")
_BLOCK = re.compile(r"^(?=[#>=]|[-+*](?:[\s-]|$))|^[0-9]{1,9}(?=[.)](?:\s|$))")  # of a line
_CLOSES_HEADING = re.compile(r"(?<=\s)(?=#+$)")
_LATEX = str.maketrans(LATEX_ESCAPE_RULES)
_LATEX_MARKS = "".join(LATEX_ESCAPE_RULES)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet executes begins with one of them
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?%?|[+-]|-inf")


def latex_cell(text: str) -> str:
    """Text for LaTeX, on one line."""
    return one_line(text).translate(_LATEX)


def markdown_cell(text: str) -> str:
    """Text for a cell of a Markdown table: shown as it is, without markup or HTML."""
    return _escaped(_IN_CELL, one_line(text))


def latex_cells(texts: Sequence[str]) -> Sequence[str]:
    """`latex_cell` of every text of a column."""
    return each_distinct(latex_cell, texts, _LATEX_MARKS)


def markdown_cells(texts: Sequence[str]) -> Sequence[str]:
    """`markdown_cell` of every text of a column."""
    return each_distinct(markdown_cell, texts, _MARKS)


def csv_cells(texts: Sequence[str]) -> Sequence[str]:
    """`csv_cell` of every text of a column."""
    return each_distinct(csv_cell, texts, "".join(_FORMULA))


def markdown_prose(text: str) -> str:
    """A title or a sentence with text of records in it: `code` is kept, all else is plain text."""
    parts = _CODE.split(one_line(text).strip())
    prose = "".join(p if i % 2 else _escaped(_IN_PROSE, p) for i, p in enumerate(parts))
    return _CLOSES_HEADING.sub(r"\\", _BLOCK.sub(r"\g<0>\\", prose))


def csv_cell(text: str) -> str:
    """Text for a CSV file: never a formula of a spreadsheet, which would be executed.

    What begins like a formula and is not a number gets an apostrophe before it. Line ends are kept;
    other control characters are escaped as by `one_line`.
    """
    text = _CONTROL.sub(lambda found: one_line(found[0]), text)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def _escaped(markup: re.Pattern[str], text: str) -> str:
    return markup.sub(r"\\\g<0>", text).replace("<", "&lt;")
