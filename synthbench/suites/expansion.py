"""Lists of option values in a variant: `FR(rank=[8, 16])` stands for `FR(rank=8)`, `FR(rank=16)`.

Notation itself has no lists, so a variant is always one mixer; suites and `--variants`
expand them here, before notation reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from synthbench.errors import NotationError, quote

ADVICE = "write a list like FR(rank=[8, 16, 32])"
MAX_EXPANDED = 1000  # variants from one text


def expand(text: str) -> list[str]:
    """The variants that a text stands for: one per combination of the values in its lists.

    Several lists give their product, the last list varying fastest. Raises NotationError for an
    empty list or value, a bracket that is not closed, and a list that is not an option's value.
    """
    pieces = _split(text)
    count = 1
    for piece in pieces:
        count *= len(piece)
    if count > MAX_EXPANDED:
        raise NotationError(
            f"variant {quote(text)} stands for {count} variants; at most {MAX_EXPANDED} are "
            "allowed: shorten its lists"
        )
    return ["".join(combination) for combination in itertools.product(*pieces)]


def expand_all(texts: Iterable[str]) -> list[str]:
    """The variants that several texts stand for, in order."""
    return [variant for text in texts for variant in expand(text)]


def _split(text: str) -> list[list[str]]:
    """The text in pieces: a list of one where it is fixed, the values of a list where it varies."""
    pieces: list[list[str]] = []
    fixed = value = opened = ""
    values: list[str] | None = None  # of the list that is open
    begin = 0  # of that list
    for position, sign in enumerate(text):
        if opened or sign in "\"'":
            opened = "" if sign == opened else opened or sign
        elif sign == "[":
            if values is not None:
                raise _error(text, "a list inside a list", position)
            if not fixed.rstrip().endswith("="):
                raise _error(text, "a list that is not the value of an option", position)
            pieces.append([fixed])
            fixed, values, begin = "", [], position
            continue
        elif sign == "]" or (sign == "," and values is not None):
            if values is None:
                raise _error(text, "']' without '['", position)
            if not value.strip():
                empty = "an empty list" if sign == "]" and not values else "an empty value"
                raise _error(text, empty, position)
            values.append(value.strip())
            value = ""
            if sign == "]":
                pieces.append(values)
                values = None
            continue
        if values is None:
            fixed += sign
        else:
            value += sign
    if values is not None:
        raise _error(text, "'[' is not closed", begin)
    return [*pieces, [fixed]]


def _error(text: str, problem: str, position: int) -> NotationError:
    return NotationError(f"variant {quote(text)}: {problem} at character {position + 1}; {ADVICE}")
