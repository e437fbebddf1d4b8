"""Text from outside made safe to show: no control characters, nothing that cannot be encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def one_line(text: str) -> str:
    """The text on one line: white space as spaces, anything else that is not printable escaped.

    Escapes are those of `repr`, such as \\x1b; lone surrogates and marks that turn the direction
    of writing are among them.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def each_distinct(
    change: Callable[[str], str], texts: Sequence[str], special: str = ""
) -> Sequence[str]:
    """`change` of every text, which is called once per distinct text, and seldom at all.

    It must leave printable text without any of the `special` characters as it is.
    """
    together = "".join(texts)
    if together.isprintable() and not any(character in together for character in special):
        return texts
    found = {text: change(text) for text in dict.fromkeys(texts)}
    return [found[text] for text in texts]


def lines(text: str) -> str:
    """Like `one_line`, with the line ends kept."""
    return "\n".join(map(one_line, text.split("\n")))


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode("ascii")
