"""A comparison of two runs as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthbench.analysis.scaling import Crossing
from synthbench.metrics import significant
from synthbench.printable import one_line
from synthbench.report.compare.comparison import CostChange, Measured, RunComparison
from synthbench.report.compare.places import place_columns, place_values
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table, Value

UNITS: dict[Measured, tuple[str, str]] = {
    "time": ("ms", "median_seconds"),
    "memory": ("MB", "peak_bytes"),
}
CHANGED = ("slower", "faster", "more", "less")
LONGEST = 40  # characters of a fact in a table; JSON has all of it
MOVED = {True: "moved", False: "not moved", None: "one round"}


@dataclass(frozen=True)
class _Letters:
    first: str
    second: str

    @property
    def ratio(self) -> str:
        return f"{self.second} / {self.first}"


def comparison_tables(comparison: RunComparison, *, every: bool = False) -> list[Table]:
    """The tables of a comparison: what changed, or every cell; none without rows."""
    letters = _Letters(comparison.first.letter, comparison.second.letter)
    tables = [
        _environment(comparison, letters),
        _costs(comparison, letters, "time", every),
        _costs(comparison, letters, "memory", every),
        _outcomes(comparison, letters),
        _conclusions(comparison, letters, every),
        _crossings(comparison, letters, every),
    ]
    return [table for table in tables if table.rows]


def _environment(comparison: RunComparison, letters: _Letters) -> Table:
    columns = (Column("what", is_key=True), Column(letters.first), Column(letters.second))
    rows: list[tuple[Value, ...]] = [
        (change.name, _text(change.first), _text(change.second))
        for change in comparison.environment
    ]
    note = (
        "Ceilings are the best rates of the machine, measured before the cells: if they differ, so "
        "did the machine."
    )
    return Table("environment", "What changed in the environment", note, (), columns, rows)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return significant(value, 4)
    text = one_line(str(value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _costs(comparison: RunComparison, letters: _Letters, of: Measured, every: bool) -> Table:
    changes = comparison.costs[of]
    shown = [one for one in changes if every or one.verdict in CHANGED]
    if not every:
        shown.sort(key=lambda one: (one.verdict in ("faster", "less"), -abs(math.log(one.ratio))))
    keys = place_columns([one.place for one in shown])
    unit, metric = UNITS[of]
    columns = [
        *keys,
        *(Column(f"{letter} {unit}", metric) for letter in (letters.first, letters.second)),
        *(Column(label, "ratio") for label in (letters.ratio, "low", "high")),
        Column("verdict"),
        *[Column("remark")] * any(one.remark for one in shown),
    ]
    rows = [_cost_row(one, keys, len(columns) - len(keys)) for one in shown]
    note = (
        f"{letters.ratio}: above 1, {letters.second} needs more; geometric means of the rounds, "
        "with the 95% interval (Welch's, with variances moderated over the cells of a framework). "
        f"Margin {_range([one.margin for one in changes])}: the largest of both noise floors of a "
        "framework, mode and length and both suites' margins. A verdict is corrected for the "
        f"{len(changes)} cells compared (Holm)."
    )
    what = "Time of a step" if of == "time" else "Peak memory"
    which = "every cell" if every else "cells that changed"
    return Table(of, f"{what}: {which}", note, (), tuple(columns), rows)


def _range(margins: Sequence[float]) -> str:
    """The margins of all cells: one, or the smallest to the largest."""
    ends = dict.fromkeys(map(percentage, (min(margins), max(margins)))) if margins else {}
    return " to ".join(ends) or "-"


def _cost_row(change: CostChange, keys: Sequence[Column], others: int) -> tuple[Value, ...]:
    values: tuple[Value, ...] = (
        change.first, change.second, change.ratio, change.low, change.high, change.verdict,
        change.remark or "-",
    )  # fmt: skip
    return (*place_values(change.place, keys), *values[:others])


def _outcomes(comparison: RunComparison, letters: _Letters) -> Table:
    keys = place_columns([one.place for one in comparison.outcomes])
    columns = (*keys, Column(letters.first), Column(letters.second))
    rows = [(*place_values(o.place, keys), o.first, o.second) for o in comparison.outcomes]
    return Table("outcomes", "Cells with another outcome", "", (), columns, rows)


def _conclusions(comparison: RunComparison, letters: _Letters, every: bool) -> Table:
    shown = [
        one for one in comparison.conclusions if every or one.agreement in ("contradict", "differ")
    ]
    shown = shown if every else sorted(shown, key=lambda one: one.agreement)
    keys = place_columns([one.place for one in shown])
    columns = list(keys)
    for letter in (letters.first, letters.second):
        columns += [Column(label, "ratio", letter) for label in ("speed", "low", "high")]
        columns += [Column("verdict", group=letter)]
    columns += [Column("agreement")]
    rows: list[tuple[Value, ...]] = []
    for one in shown:
        values: list[Value] = []
        for judged in (one.first, one.second):
            values += [judged.estimate.ratio, *judged.estimate.interval(), judged.verdict]
        rows.append((*place_values(one.place, keys), *values, one.agreement))
    note = (
        f"speed: steps per second over those of {comparison.first.baseline} in the same round of "
        "the same run, with its 95% interval; verdicts as in the table `ratios` of each run. "
        "contradict: faster in one run, slower in the other. differ: a difference in one run that "
        "is within the margin of the other."
    )
    which = "every cell" if every else "cells about which the runs disagree"
    title = f"Conclusions about {comparison.first.baseline} and the others: {which}"
    return Table("conclusions", title, note, (), tuple(columns), rows)


def _crossings(comparison: RunComparison, letters: _Letters, every: bool) -> Table:
    shown = [one for one in comparison.crossings if every or one.moved]
    keys = place_columns([one.place for one in shown], with_length=False)
    columns = list(keys)
    for letter in (letters.first, letters.second):
        columns += [Column(label, "length", letter) for label in ("at", "low", "high")]
    columns += [Column("moved")]
    rows = [
        (
            *place_values(one.place, keys),
            *_crossing(one.first, one.lengths),
            *_crossing(one.second, one.lengths),
            MOVED[one.moved],
        )
        for one in shown
    ]
    baseline = comparison.first.baseline
    note = (
        f"at: from this length on, the variant takes less time than {baseline} (`until`: up to "
        "this length), with the 95% interval. moved: the intervals of both runs do not overlap, "
        f"also after correction for the {len(comparison.crossings)} compared (Bonferroni)."
    )
    which = "every variant" if every else "those that moved"
    title = f"Where variants overtake {baseline} in time: {which}"
    return Table("crossings", title, note, (), tuple(columns), rows)


def _crossing(found: Crossing, lengths: Sequence[int]) -> list[Value]:
    at: Value = found.length
    if found.kind == "always":
        at = "always"
    elif found.kind == "never":
        at = "never in range"
    elif found.kind == "falls behind":
        at = f"until {significant(found.length)}"
    return [at, *(_end(end, lengths) for end in (found.low, found.high))]


def _end(length: float, lengths: Sequence[int]) -> Value:
    if length == 0:
        return f"below {min(lengths)}"
    return f"above {max(lengths)}" if math.isinf(length) else length
