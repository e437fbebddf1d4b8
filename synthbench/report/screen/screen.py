"""One screen about a run: which variant is the fastest or learns most, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from synthbench.analysis.comparison import Judgement
from synthbench.report.data.grid import Grid
from synthbench.report.data.noise import percentage
from synthbench.report.data.prepared import Prepared
from synthbench.report.data.selection import Selection
from synthbench.report.data.table import MARK
from synthbench.report.screen.block_lines import Detail, block_lines
from synthbench.report.screen.blocks import Block, blocks_of
from synthbench.report.screen.fit import WIDTH as WIDTH
from synthbench.report.screen.fit import flow
from synthbench.report.screen.head import TRUST, failures, measured, remarks, trust
from synthbench.report.screen.learned import Learned, learned_of
from synthbench.report.screen.texts import MARKS

HEIGHT = 40  # of the screen
MOST_WRAP = 12  # lines for the variants at one length
MOST_FAILURES = 3
REASON_LINES = 2  # a longer reason is left to the table
FEWEST_LENGTHS = 3  # shown before exponents and crossings are left out
FEWEST_LINES = 2  # of a block: its heading and one length
ALL = Selection()


class Line(NamedTuple):
    """A line of the screen; `style` is one of the terminal's, such as bold."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Screen:
    """What the screen says, before it is put into lines."""

    measured: Sequence[str]
    remarks: Sequence[str]
    trust: Sequence[str]
    legend: Sequence[str]
    failures: Sequence[str]
    blocks: Sequence[Block]
    baseline: str
    more: Sequence[str]  # how to see more
    learned: Sequence[Learned] = ()


def screen_of(prepared: Prepared, selection: Selection = ALL) -> Screen:
    """The screen of a run; a selection leaves out rows and changes no verdict."""
    blocks = blocks_of(prepared, selection)
    learned = learned_of(prepared, selection)
    return Screen(
        measured(prepared),
        remarks(prepared),
        trust(prepared) if prepared.grid.records else [],
        _legend(prepared, blocks) if blocks or not learned else [],
        failures(prepared),
        blocks,
        prepared.context.baseline,
        _more(prepared),
        learned,
    )


def screen_lines(screen: Screen, width: int = WIDTH, height: int = HEIGHT) -> list[Line]:
    """The lines of a screen, with as much detail as fits.

    Names of more than about 40 characters make it wider: nothing is cut.
    """
    lines: list[Line] = []
    for detail, shown in _details(screen):
        if shown.blocks * FEWEST_LINES > height:
            continue  # it cannot fit, and a large run has thousands of blocks
        lines = list(_lines(screen, detail, shown, width))
        if len(lines) <= height:
            break
    return lines


class _Shape(NamedTuple):
    """How much of the screen is shown."""

    blocks: int
    failures: int
    spaced: bool  # an empty line before each block
    short: bool = False  # only the verdicts of trainings
    learned: int | None = None  # groups of trainings; None: all


def _details(screen: Screen) -> Iterator[tuple[Detail, _Shape]]:
    """How much may be shown, from the most to the least."""
    count = len(screen.blocks)
    lengths = max((len(block.rows) for block in screen.blocks), default=0)
    all_shown = _Shape(count, MOST_FAILURES, True)
    for wrap in range(MOST_WRAP, 0, -1):
        yield Detail(wrap), all_shown
    all_shown = all_shown._replace(short=True)
    dense = all_shown._replace(spaced=False)
    yield Detail(), dense
    yield Detail(joined=True), dense
    dense = dense._replace(failures=1)
    for fewer in range(lengths, FEWEST_LENGTHS - 1, -1):
        yield Detail(lengths=fewer, joined=True), dense
    for extras in (1, 0):
        for fewer in range(min(lengths, FEWEST_LENGTHS), 0, -1):
            yield Detail(lengths=fewer, extras=extras), dense
    for blocks in range(count - 1, -1, -1):
        yield Detail(lengths=1, extras=0), dense._replace(blocks=blocks)
    for learned in range(len(screen.learned) - 1, -1, -1):
        yield Detail(lengths=1, extras=0), dense._replace(blocks=0, learned=learned)


def _lines(screen: Screen, detail: Detail, shown: _Shape, width: int) -> Iterator[Line]:
    for text in flow(screen.measured, width, "; "):
        yield Line(text, "bold")
    for remark in screen.remarks:
        yield from map(Line, flow(remark.split(), width, " "))
    if screen.trust:
        yield from map(Line, flow([TRUST + screen.trust[0], *screen.trust[1:]], width, "; "))
    yield from map(Line, _failure_lines(screen, shown.failures, width))
    if screen.legend:
        yield from map(Line, flow(screen.legend, width, ", "))
    groups = screen.learned[: shown.learned]
    for group in groups:
        if shown.spaced:
            yield Line("")
        heading, *rows = group.lines(width, short=shown.short)
        yield Line(heading, "bold")
        yield from map(Line, rows)
    blocks = _most_important(screen.blocks, shown.blocks)
    for block in blocks:
        if shown.spaced:
            yield Line("")
        heading, *rows = block_lines(block, screen.baseline, detail, width)
        yield Line(heading, "bold")
        yield from map(Line, rows)
    if shown.spaced:
        yield Line("")
    left_out = [
        f"{hidden} of {len(screen.blocks)} parts (framework, mode, setting) are left out here"
        for hidden in [len(screen.blocks) - len(blocks)]
        if hidden
    ]
    left_out += [
        f"{hidden} of {len(screen.learned)} groups of trainings are left out here"
        for hidden in [len(screen.learned) - len(groups)]
        if hidden
    ]
    left_out += [
        f"{hidden} of {most} lengths are left out here"
        for most in [max((len(block.rows) for block in blocks), default=0)]
        for hidden in [most - max((len(detail.rows(block)) for block in blocks), default=0)]
        if hidden
    ]
    yield from map(Line, flow(left_out, width, "; "))
    yield from map(Line, flow(screen.more, width, ", "))


def _failure_lines(screen: Screen, most: int, width: int) -> Iterator[str]:
    for text in screen.failures[:most]:
        lines = flow(text.split(), width, " ")
        if len(lines) <= REASON_LINES:
            yield from lines
        else:
            short = text.split(": ", 2)[:2]
            yield from flow([*": ".join(short).split(), "(--table outcomes)"], width, " ")
    if (left_out := len(screen.failures) - most) > 0:
        yield f"{left_out} more reasons: --table outcomes"


def _most_important(blocks: Sequence[Block], count: int) -> list[Block]:
    """The first blocks of train steps, then the first of the others; in their order."""
    by_importance = sorted(range(len(blocks)), key=lambda at: blocks[at].mode != "train")
    return [blocks[at] for at in sorted(by_importance[:count])]


def _legend(prepared: Prepared, blocks: Sequence[Block]) -> list[str]:
    """What the marks mean; nothing where there are none."""
    context = prepared.context
    verdicts = {
        entry.compared.verdict
        for block in blocks
        for row in block.rows
        for entry in row.entries
        if isinstance(entry.compared, Judgement)
    }
    if not blocks:
        return ["No cell of the task `cost` is chosen"]
    if not any(block.has_baseline for block in blocks):
        return [f"This run has no cells of its baseline {context.baseline}: no ratios, no verdicts"]
    if not verdicts:
        return [f"No variant can be compared with the baseline {context.baseline}"]
    if verdicts == {"one round"}:
        mark = MARKS["one round"]
        few = f"Speed vs {context.baseline}: {mark} one round, too few for a verdict"
        return [few, f"{MARK} disturbed"]
    # Where times of other moments stand beside a ratio, they may contradict it.
    how = ", timed in turn" if prepared.cost_grid.has("paired_ratio") else ""
    found = [
        f"Speed vs {context.baseline}{how}: {MARKS['faster']} faster",
        f"{MARKS['slower']} slower",
        f"{MARKS['same']} same within {percentage(1 + context.noise.declared)}",
        f"{MARKS['close']} close",
        f"{MARKS['undecided']} undecided",
    ]
    found += [f"{MARKS['one round']} one round"] if "one round" in verdicts else []
    return [*found, f"{MARK} disturbed"]


def _has_numbers(grid: Grid, variant: str) -> bool:
    return any(key.variant == variant and grid.missing(key) is None for key in grid.keys)


def _more(prepared: Prepared) -> list[str]:
    """How to see more, with names that the run has."""
    grid = prepared.cost_grid
    found = ["--table NAME --sort COLUMN", "--all (every table)"]
    if prepared.context.qualities:
        found = ["--table quality (intervals)", *found]
    if grid.records:
        measured = [v for v in grid.variants(grid.settings()[0]) if _has_numbers(grid, v)]
        variants = ",".join((measured or [prepared.context.baseline])[:2])
        found = [
            f"--seq-len {grid.lengths()[-1]}",
            f"--framework {grid.frameworks()[-1]}",
            f"--mode {grid.modes()[-1]}",
            f'--variants "{variants}"',
            "--table ratios (intervals)",
            *found,
        ]
    return [f"More: synthbench tables RUN with {found[0]}", *found[1:]]
