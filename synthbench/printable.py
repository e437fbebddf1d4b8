"""Text from outside made safe to show: no control characters, nothing that cannot be encoded."""

from __future__ import annotations


def one_line(text: str) -> str:
    """The text on one line: white space as spaces, anything else that is not printable escaped.

    Escapes are those of `repr`, such as \\x1b; lone surrogates and marks that turn the direction
    of writing are among them.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def lines(text: str) -> str:
    """Like `one_line`, with the line ends kept."""
    return "\n".join(map(one_line, text.split("\n")))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")
