"""Pieces of text in lines of a given width."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH = 100  # of the screen, where the terminal is not wider
GAP = "  "  # between pieces


def flow(pieces: Sequence[str], width: int, gap: str = GAP) -> list[str]:
    """All pieces in as many lines as they need; a piece is never cut, however long."""
    lines: list[str] = []
    sign = gap.rstrip()  # at the end of a line that is not the last one
    for at, piece in enumerate(pieces):
        end = sign if at < len(pieces) - 1 else ""
        if lines and len(lines[-1] + gap + piece + end) <= width:
            lines[-1] += gap + piece
        else:
            lines[-1:] = [line + sign for line in lines[-1:]]
            lines.append(piece)
    return lines


def fit(pieces: Sequence[str], width: int, lines: int) -> list[str]:
    """The first pieces, as many as there is room for; the last line says how many more there are.

    At least the first piece is shown, if need be on a line that is too long.
    """
    whole = flow(pieces, width)
    if len(whole) <= lines:
        return whole
    found: list[str] = []
    for shown in range(1, len(pieces)):
        more = f"{len(pieces) - shown} more"
        flowed = flow([*pieces[:shown], more], width)
        if len(flowed) > lines:
            return found or [GAP.join([pieces[0], more])]
        found = flowed
    return found or [pieces[0]]
