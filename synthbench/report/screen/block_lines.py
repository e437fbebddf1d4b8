"""One framework and mode in lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from synthbench.metrics import two_decimals
from synthbench.report.screen.blocks import Block, LengthRow
from synthbench.report.screen.fit import GAP, fit, flow
from synthbench.report.screen.texts import (
    answer_text,
    crossing_text,
    entry_text,
    memory_text,
    point_text,
    time_text,
)

INDENT = "  "
LONGEST_TITLE = 16  # columns; a longer title has a line of its own
NARROWEST = 26  # columns for the list of variants; with fewer, a row takes several lines
LONGEST_MORE = len("  999 more")


@dataclass(frozen=True)
class Detail:
    """How much of each block is shown.

    `wrap`: the most lines for the variants at one length. `lengths`: the most lengths, None for
    all. `joined`: exponents and crossings share a line. `extras`: 2 for the Pareto front, exponents
    and crossings, 1 for the front alone, 0 for none of them.
    """

    wrap: int = 1
    lengths: int | None = None
    joined: bool = False
    extras: int = 2

    def rows(self, block: Block) -> list[LengthRow]:
        """The longest length, the shortest, and others evenly between them."""
        last = len(block.rows) - 1
        if self.lengths is None or self.lengths > last:
            return list(block.rows)
        if self.lengths == 1:
            return [block.rows[last]]
        return [block.rows[round(n * last / (self.lengths - 1))] for n in range(self.lengths)]


class _Column(NamedTuple):
    heading: str
    texts: list[str]
    align: str

    @property
    def width(self) -> int:
        return max(map(len, (self.heading, *self.texts)))


def block_lines(block: Block, baseline: str, detail: Detail, width: int) -> list[str]:
    """The heading, one row per length, and what is known over all lengths."""
    title = ", ".join(part for part in (f"{block.framework} {block.mode}", block.setting) if part)
    rows = detail.rows(block)
    columns = [_Column("", [f"{INDENT}{row.seq_len}" for row in rows], ">")]
    heading = "variants, by time"
    if block.has_baseline:
        times = [time_text(row.baseline_seconds) for row in rows]
        columns += [_Column(f"{baseline} ms", times, ">")]
        heading = "variants, by measured speed"
    if block.is_judged:
        columns += [_Column("fastest + (95%)", [answer_text(row) for row in rows], "<")]
        heading = "others, by measured speed"
    others = [
        [entry_text(entry) for entry in row.entries if entry is not row.answer] for row in rows
    ]
    memory = _Column("least MB", [memory_text(row) for row in rows], ">")
    titled = len(title) <= LONGEST_TITLE
    if titled:
        columns[0] = columns[0]._replace(heading=title)
    taken = sum(column.width + len(GAP) for column in (*columns, memory))
    found = [] if titled else [title]
    # Wide enough for the first variant of each row, and how many more there are.
    needed = max([NARROWEST, *(len(entries[0]) + LONGEST_MORE for entries in others if entries)])
    if width - taken < needed:
        found = [title, *_stacked(columns, others, memory, detail.wrap, width)]
    else:
        found += _aligned(columns, (heading, others), memory, detail.wrap, width - taken)
    return [*found, *_extras(block, baseline, detail, width)]


def _aligned(
    columns: Sequence[_Column],
    others: tuple[str, list[list[str]]],
    memory: _Column,
    wrap: int,
    room: int,
) -> list[str]:
    """A heading, and the rows in columns; the list of variants may take several lines."""
    heading, lists = others
    first, *rest = columns
    top = [f"{first.heading:<{first.width}}"]
    top += [f"{one.heading:{one.align}{one.width}}" for one in rest]
    top += [f"{heading:<{room}}", f"{memory.heading:>{memory.width}}"]
    found = [GAP.join(top)]
    for at, entries in enumerate(lists):
        cells = [f"{one.texts[at]:{one.align}{one.width}}" for one in columns]
        start, *more = fit(entries, room, wrap) or [""]
        cells += [f"{start:<{room}}", f"{memory.texts[at]:>{memory.width}}"]
        found.append(GAP.join(cells))
        found += [GAP.join([*(" " * one.width for one in columns), text]) for text in more]
    return [line.rstrip() for line in found]


def _stacked(
    columns: Sequence[_Column], others: list[list[str]], memory: _Column, wrap: int, width: int
) -> list[str]:
    """The rows without columns, for long names and narrow terminals."""
    found: list[str] = []
    first, *rest = columns
    for at, entries in enumerate(others):
        pieces = [first.texts[at].strip()]
        pieces += [f"{one.heading}: {one.texts[at]}" for one in (*rest, memory)]
        flowed = flow(pieces, width - 2 * len(INDENT), "; ")
        flowed += fit(entries, width - 2 * len(INDENT), wrap)
        found += [f"{INDENT}{flowed[0]}", *(f"{INDENT}{INDENT}{text}" for text in flowed[1:])]
    return found


def _extras(block: Block, baseline: str, detail: Detail, width: int) -> list[str]:
    """The Pareto front, exponents and crossings, with a label each."""
    front: list[tuple[str, list[str]]] = []
    growth: list[tuple[str, list[str]]] = []
    if detail.extras > 0 and block.front:
        pieces = [point_text(point) for point in block.front]
        front.append((f"front at {block.rows[-1].seq_len}", pieces))
    if detail.extras > 1 and block.exponents:
        pieces = [
            f"{variant} {two_decimals(one.value)}±{two_decimals((one.high - one.low) / 2)}"
            for variant, one in block.exponents
        ]
        growth.append(("time ~ L^x", pieces))
    if detail.extras > 1 and block.crossings:
        pieces = [crossing_text(*one) for one in block.crossings]
        growth.append((f"faster than {baseline}", pieces))
    if detail.joined and len(growth) == 2:
        (label, exponents), (across, crossings) = growth
        column = max(len(one) for one, _ in (*front, growth[0]))
        room = width - len(INDENT) - column - len(GAP)
        (second,) = fit(crossings, room // 2, 1)
        (first,) = fit(exponents, room - len(f"; {across}: {second}"), 1)
        text = f"{first}; {across}: {second}"
        if len(text) <= room:
            front, growth = [*front, (label, [text])], []
    found = [*front, *growth]
    column = max((len(label) for label, _ in found), default=0)
    room = width - len(INDENT) - column - len(GAP)
    return [
        f"{INDENT}{label:<{column}}{GAP}{''.join(fit(pieces, room, 1))}" for label, pieces in found
    ]
