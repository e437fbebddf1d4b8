"""What the screen shows of one framework and mode, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthbench.analysis.comparison import Judgement
from synthbench.analysis.scaling import Exponent
from synthbench.report.data.grid import NO_CELL, Grid, Key
from synthbench.report.data.prepared import Prepared
from synthbench.report.data.selection import Selection
from synthbench.report.data.table import Value
from synthbench.report.screen.pareto import Point, pareto_front
from synthbench.report.tables.scaling import Growth, Overtaking, Series, growth


@dataclass(frozen=True)
class Entry:
    """A variant at one length; `compared`: its judgement, or why there is none."""

    variant: str
    seconds: Value  # of a step, or why they are missing
    compared: Judgement | str

    @property
    def rank(self) -> tuple[int, float]:
        """Faster ones first; then those that are not compared, by time; then those without time."""
        if isinstance(self.compared, Judgement):
            return 0, -self.compared.estimate.log_ratio
        return (2, 0.0) if isinstance(self.seconds, str) else (1, self.seconds)


@dataclass(frozen=True)
class LengthRow:
    """The variants at one length, without the baseline, by measured speed."""

    seq_len: int
    baseline_seconds: Value
    entries: tuple[Entry, ...]
    least_memory: tuple[str, float] | None

    @property
    def answer(self) -> Entry | None:
        """The fastest of those that are surely faster than the baseline; None if there is none."""
        for entry in self.entries:
            if isinstance(entry.compared, Judgement) and entry.compared.verdict == "faster":
                return entry
        return None

    @property
    def is_judged(self) -> bool:
        """Whether a variant has a verdict, which takes two rounds."""
        return any(
            isinstance(entry.compared, Judgement) and entry.compared.verdict != "one round"
            for entry in self.entries
        )


@dataclass(frozen=True)
class Block:
    """One framework and mode in one setting; `rows` by length, the shortest first.

    `front`: the Pareto front of time and memory at the longest length. `crossings`: where variants
    cross the baseline in time, if the verdict at the longest length confirms the side they are on.
    """

    setting: str
    framework: str
    mode: str
    has_baseline: bool
    rows: tuple[LengthRow, ...]
    front: tuple[Point, ...]
    exponents: tuple[tuple[str, Exponent], ...]
    crossings: tuple[tuple[str, Overtaking], ...]

    @property
    def is_judged(self) -> bool:
        """Whether a variant has a verdict at any length."""
        return any(row.is_judged for row in self.rows)


def blocks_of(prepared: Prepared, selection: Selection) -> list[Block]:
    """A block for each chosen framework and mode in each setting, in the order of the tables."""
    grid, baseline = prepared.cost_grid, prepared.context.baseline
    grown = growth(grid, baseline, "seconds")
    return [
        block
        for setting in grid.settings()
        for framework, mode in grid.pairs(setting)
        if selection.has(framework=framework, mode=mode)
        and (block := _block(prepared, selection, (setting, framework, mode), grown)) is not None
    ]


def _block(
    prepared: Prepared,
    selection: Selection,
    place: tuple[str, str, str],
    grown: dict[Series, Growth],
) -> Block | None:
    grid, baseline = prepared.cost_grid, prepared.context.baseline
    setting, framework, mode = place
    variants = [v for v in grid.variants(setting) if selection.has(variant=v)]
    lengths = [length for length in grid.lengths(setting) if selection.has_length(length)]
    if not variants or not lengths:
        return None
    at = {
        length: {v: Key(setting, v, framework, mode, length) for v in variants}
        for length in lengths
    }
    rows = [_row(prepared, keys, length) for length, keys in at.items()]
    by_speed = [entry.variant for entry in rows[-1].entries]
    ordered = [v for v in variants if v == baseline] + by_speed
    series = {v: grown[Series(setting, framework, mode, v)] for v in ordered}
    return Block(
        setting,
        framework,
        mode,
        baseline in grid.variants(setting),
        tuple(rows),
        tuple(pareto_front(_points(grid, at[lengths[-1]]))),
        tuple((v, one.exponent) for v, one in series.items() if isinstance(one.exponent, Exponent)),
        tuple(_crossings(series, prepared, place)),
    )


def _row(prepared: Prepared, keys: dict[str, Key], length: int) -> LengthRow:
    grid, context = prepared.cost_grid, prepared.context
    entries = [
        Entry(v, grid.value(key, "median_seconds"), context.verdicts.get(key, NO_CELL))
        for v, key in keys.items()
        if v != context.baseline
    ]
    peaks = [(v, grid.value(key, "peak_bytes")) for v, key in keys.items()]
    measured = [(v, peak) for v, peak in peaks if not isinstance(peak, str)]
    first = next(iter(keys.values()))
    return LengthRow(
        length,
        grid.value(first._replace(variant=context.baseline), "median_seconds"),
        tuple(sorted(entries, key=lambda entry: entry.rank)),
        min(measured, key=lambda one: one[1], default=None),
    )


def _points(grid: Grid, keys: dict[str, Key]) -> list[Point]:
    found: list[Point] = []
    for variant, key in keys.items():
        seconds, peak = grid.value(key, "median_seconds"), grid.value(key, "peak_bytes")
        if not isinstance(seconds, str) and not isinstance(peak, str):
            found.append(Point(variant, seconds, peak))
    return found


def _crossings(
    series: dict[str, Growth], prepared: Prepared, place: tuple[str, str, str]
) -> Sequence[tuple[str, Overtaking]]:
    setting, framework, mode = place
    found: list[tuple[str, Overtaking]] = []
    for variant, grown in series.items():
        overtaking = grown.overtaking
        if isinstance(overtaking, str):
            continue
        longest = Key(setting, variant, framework, mode, overtaking.lengths[-1])
        judged = prepared.context.verdicts.get(longest)
        wanted = {"overtakes": "faster", "falls behind": "slower"}.get(overtaking.crossing.kind)
        if isinstance(judged, Judgement) and judged.verdict == wanted:
            found.append((variant, overtaking))
    return sorted(
        found, key=lambda one: (one[1].crossing.kind != "overtakes", one[1].crossing.length)
    )
