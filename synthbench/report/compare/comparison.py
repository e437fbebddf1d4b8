"""Two runs compared: what changed, times and memory, conclusions and crossings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synthbench.analysis.comparison import Estimate, Judgement, Rule
from synthbench.analysis.scaling import Crossing
from synthbench.analysis.two_runs import (
    Agreement,
    Pair,
    Series,
    agreement,
    compare_crossings,
    judge_pairs,
)
from synthbench.errors import ResultsError
from synthbench.report.compare.environment import Change, environment_changes
from synthbench.report.compare.matching import Match, match_cells
from synthbench.report.compare.side import Side, on_one_scale
from synthbench.report.compare.vanished import vanished_cells
from synthbench.report.data.grid import NOT_RUN, Cost, Key
from synthbench.suites.cell import Cell

Measured = Literal["time", "memory"]
COSTS: dict[Measured, Cost] = {"time": "seconds", "memory": "peak_bytes"}
# For a cell that costs less, or more, in the second run.
WORDS: dict[Measured, dict[str, str]] = {
    "time": {},
    "memory": {"faster": "less", "slower": "more"},
}


@dataclass(frozen=True)
class CostChange:
    """What a step of a cell costs in both runs: the geometric mean of the rounds.

    In seconds or bytes; `ratio`, `low`, `high`: the second over the first, with its 95% interval.
    `margin`: a smaller ratio is no difference. `verdict`: on the second run, "faster" or "slower",
    for memory "less" or "more".
    """

    place: Key
    first: float
    second: float
    ratio: float
    low: float
    high: float
    verdict: str
    margin: float
    p: float | None
    remark: str


@dataclass(frozen=True)
class OutcomeChange:
    """A cell with another outcome in the second run."""

    place: Key
    first: str
    second: str


@dataclass(frozen=True)
class Conclusion:
    """What both runs conclude about a variant and the baseline, and whether they agree."""

    place: Key
    first: Judgement
    second: Judgement
    agreement: Agreement


@dataclass(frozen=True)
class CrossingChange:
    """Where a variant and the baseline cost the same time, in both runs; lengths: those used."""

    place: Key  # of the longest length
    lengths: tuple[int, ...]
    first: Crossing
    second: Crossing
    moved: bool | None  # None: one of the runs has only one round


@dataclass(frozen=True)
class RunComparison:
    """A run compared with the first one; lists are in the order of the first run's tables.

    `no_times`, `no_conclusions`: why there are none; empty if there are. `ok_in_both`: how many
    cells both runs measured, and `elsewhere` how many of them by different machines.
    """

    first: Side
    second: Side
    match: Match
    environment: list[Change]
    outcomes: list[OutcomeChange]
    costs: dict[Measured, list[CostChange]]
    conclusions: list[Conclusion]
    crossings: list[CrossingChange]
    no_times: str
    no_conclusions: str
    ok_in_both: int = 0
    elsewhere: int = 0

    def verdicts(self, measured: Measured) -> Counter[str]:
        """How often each verdict occurs."""
        return Counter(change.verdict for change in self.costs[measured])

    def agreements(self) -> Counter[str]:
        """How often the conclusions agree, and so on."""
        return Counter(one.agreement for one in self.conclusions)

    def typical(self, measured: Measured) -> dict[str, float]:
        """Framework -> the median of the ratios: what changed in all cells alike."""
        logs: dict[str, list[float]] = {}
        for change in self.costs[measured]:
            logs.setdefault(change.place.framework, []).append(math.log(change.ratio))
        return {name: math.exp(float(np.median(found))) for name, found in logs.items()}


def compare_runs(first: Side, second: Side) -> RunComparison:
    """Compare two runs; raises ResultsError if they have no cell in common."""
    for side in (first, second):
        if side.other_tasks and not side.cells:
            raise ResultsError(
                f"{side.letter} has no cell of the task `cost`, and only these are compared here; "
                "what its trainings have learned is in the table `quality` of each run"
            )
    match = match_cells(first.cells, second.cells, (first.letter, second.letter))
    order = {cell_id: at for at, cell_id in enumerate(_in_order(first))}
    pairs = sorted(match.pairs, key=lambda pair: order[pair[0].id])
    no_times = _no_times(first, second, match, pairs)
    timed = [] if no_times else [pair for pair in pairs if _on_same_machines(first, second, *pair)]
    costs = {name: _costs(first, second, timed, name) for name in COSTS}
    ok = [pair for pair in pairs if _are_ok(first, second, *pair)]
    no_conclusions = ""
    if first.baseline != second.baseline:
        no_conclusions = (
            f"the baseline is {first.baseline} in {first.letter} and {second.baseline} in "
            f"{second.letter}"
        )
    concluding = [] if no_conclusions else pairs
    return RunComparison(
        first,
        second,
        match,
        environment_changes(first.run.info, second.run.info),
        sorted(
            _outcomes(first, second, pairs) + _vanished(first, second, match),
            key=lambda one: order[first.grid.ids[one.place]],
        ),
        costs,
        _conclusions(first, second, concluding),
        _crossings(first, second, concluding),
        no_times,
        no_conclusions,
        ok_in_both=len(ok),
        elsewhere=sum(not _on_same_machines(first, second, *pair) for pair in ok),
    )


def _in_order(side: Side) -> list[str]:
    """The ids of the cells in the order of the tables."""
    return [side.grid.ids[key] for key in side.grid.keys if key in side.grid.ids]


def _no_times(first: Side, second: Side, match: Match, pairs: Sequence[tuple[Cell, Cell]]) -> str:
    """Why times cannot be compared; empty if they can."""
    if "device" in match.differing:
        one, other = match.differing["device"]
        return f"{first.letter} ran on device {one}, {second.letter} on {other}"
    if not any(_on_same_machines(first, second, *pair) for pair in pairs):
        names = [", ".join(sorted(set().union(*side.machines.values()))) or "an unknown machine"
                 for side in (first, second)]  # fmt: skip
        return f"{first.letter} ran on {names[0]}, {second.letter} on {names[1]}"
    return ""


def _on_same_machines(first: Side, second: Side, own: Cell, other: Cell) -> bool:
    """Whether the same machine, or the same several ones, measured a cell in both runs."""
    machines = first.machines[own.id]
    return machines == second.machines[other.id] and "" not in machines


def _are_ok(first: Side, second: Side, own: Cell, other: Cell) -> bool:
    """Whether both runs measured a cell."""
    return not (first.grid.missing(first.key(own)) or second.grid.missing(second.key(other)))


def _costs(
    first: Side,
    second: Side,
    pairs: Sequence[tuple[Cell, Cell]],
    measured: Measured,
) -> list[CostChange]:
    """The cells that both runs measured, all judged together.

    A cell whose cost is not known of the same machines in both runs has no ratio, as one that other
    machines measured.
    """
    found: list[tuple[Cell, Cell, Pair]] = []
    timed = on_one_scale((first, second))
    for own, other in pairs:
        one = timed[0].sample(own, COSTS[measured])
        another = timed[1].sample(other, COSTS[measured])
        if isinstance(one, str) or isinstance(another, str):
            continue
        if set(one.machines) == set(another.machines):
            found.append((own, other, Pair(one, another, own.framework)))
    changes: list[CostChange] = []
    noises = [side.noises[COSTS[measured]] for side in (first, second)]
    margins = [
        max(
            noises[0].margin(first.key(own), pair.first.independent),
            noises[1].margin(second.key(other), pair.second.independent),
        )
        for own, other, pair in found
    ]
    judged = judge_pairs(
        [pair for _, _, pair in found],
        margins,
        Rule(
            looks=max(noise.looks for noise in noises),
            resolution=max(noise.resolution for noise in noises),
            same_within=1 + max(noise.declared for noise in noises),
        ),
    )
    for (own, other, pair), margin, judgement in zip(found, margins, judged, strict=True):
        low, high = judgement.estimate.interval()  # of the speed
        changes.append(
            CostChange(
                place=first.key(own),
                first=math.exp(float(np.mean(pair.first.logs))),
                second=math.exp(float(np.mean(pair.second.logs))),
                ratio=1 / judgement.estimate.ratio,
                low=1 / high,
                high=1 / low if low else math.inf,
                verdict=WORDS[measured].get(judgement.verdict, judgement.verdict),
                margin=margin,
                p=judgement.p,
                remark=_remark(first, second, own, other),
            )
        )
    return changes


def _remark(first: Side, second: Side, own: Cell, other: Cell) -> str:
    """Other kernels, and in which run something disturbed the cell."""
    parts = []
    kernels = (first.kernels.get(own.id, ""), second.kernels.get(other.id, ""))
    if kernels[0] != kernels[1]:
        parts.append(f"kernels: {kernels[0] or 'none named'} -> {kernels[1] or 'none named'}")
    disturbed = [
        side.letter
        for side, cell in ((first, own), (second, other))
        if side.grid.ids.get(side.key(cell)) in side.grid.disturbed_cells
    ]
    if disturbed:
        parts.append(f"disturbed in {' and '.join(disturbed)}")
    return "; ".join(parts)


def _outcomes(first: Side, second: Side, pairs: Sequence[tuple[Cell, Cell]]) -> list[OutcomeChange]:
    found = []
    for own, other in pairs:
        key = first.key(own)
        one, another = (
            side.grid.missing(side.key(cell)) or "ok"
            for side, cell in ((first, own), (second, other))
        )
        if one != another:
            found.append(OutcomeChange(key, one, another))
    return found


def _vanished(first: Side, second: Side, match: Match) -> list[OutcomeChange]:
    places = [first.key(cell) for cell in vanished_cells(first, second, match)]
    return [OutcomeChange(place, first.grid.missing(place) or "ok", NOT_RUN) for place in places]


def _conclusions(first: Side, second: Side, pairs: Sequence[tuple[Cell, Cell]]) -> list[Conclusion]:
    found = []
    for own, other in pairs:
        one, another = _judged(first, own), _judged(second, other)
        if one is not None and another is not None:
            agreed = agreement(one.verdict, another.verdict)
            found.append(Conclusion(first.key(own), one, another, agreed))
    return found


def _judged(side: Side, cell: Cell) -> Judgement | None:
    """What a run concludes about a cell; None for the baseline and for what it cannot judge."""
    return None if cell.replica else side.verdicts.get(side.key(cell))


def _crossings(
    first: Side, second: Side, pairs: Sequence[tuple[Cell, Cell]]
) -> list[CrossingChange]:
    """One per variant, framework and mode that both runs measured at two lengths or more."""
    lines: dict[Key, list[tuple[int, Estimate, Estimate]]] = {}
    for own, other in pairs:
        one, another = _judged(first, own), _judged(second, other)
        if one is not None and another is not None:
            line = first.key(own)._replace(seq_len=0)
            lines.setdefault(line, []).append((own.seq_len, one.estimate, another.estimate))
    several = {line: points for line, points in lines.items() if len(points) > 1}
    series: list[tuple[Series, Series]] = []
    for points in several.values():
        lengths, ones, others = zip(*points, strict=True)
        series.append((Series(lengths, ones), Series(lengths, others)))
    return [
        CrossingChange(
            line._replace(seq_len=max(one.lengths)), one.lengths, found.first, found.second,
            found.moved,
        )
        for line, (one, _), found in zip(several, series, compare_crossings(series), strict=True)
    ]  # fmt: skip
