"""The runs of a suite in order, what each of their cells took, and where that changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

import numpy as np

from synthbench.report.compare.environment import short_commit
from synthbench.report.compare.side import Side, on_one_scale
from synthbench.report.data.context import variant_order
from synthbench.report.data.grid import Grid, Key
from synthbench.run_info import RunInfo
from synthbench.suites.cell import Cell

UNKNOWN = "unknown machine"

Detect = Callable[[Sequence[Sequence[float]]], list[list[int]]]


@dataclass(frozen=True)
class Point:
    """A run; `date`: that of its commit, else of its start."""

    name: str
    commit: str | None
    date: datetime
    is_commit_date: bool
    started: str


@dataclass(frozen=True)
class Change:
    """From run `at` on, a step takes `ratio` times as long as in the runs before."""

    at: int
    ratio: float
    verdict: Literal["slower", "faster"]


@dataclass(frozen=True)
class Line:
    """A cell over the runs: seconds per step, None where a run did not measure it."""

    place: Key
    seconds: list[float | None]
    changes: list[Change]


@dataclass(frozen=True)
class History:
    """The runs of a suite on one machine and device, oldest first.

    `machine`: also several ones that together measured the rounds of each cell.
    `margin`: a smaller change is not marked; a ratio above 1.
    """

    suite: str
    device: str
    machine: str
    points: list[Point]
    lines: list[Line]
    margin: float


@dataclass(frozen=True)
class Chosen:
    """Which cells are shown; an empty part chooses all.

    Without a length, of each variant the longest one that its newest run has measured.
    """

    variants: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()


def commit_of(info: RunInfo) -> str | None:
    """The whole commit of a run."""
    commit = (info.environment.get("git") or {}).get("commit")
    return None if commit is None else str(commit)


def histories(
    sides: Sequence[Side],
    dates: Mapping[str, datetime],
    chosen: Chosen = Chosen(),
    detect: Detect | None = None,
) -> list[History]:
    """One history per device and machine, by the dates of commits; without `detect`, no changes.

    The machine is that of the cells: in a run of several machines, another one may have measured a
    cell than in the run before.
    """
    groups: dict[tuple[str, str], list[Side]] = {}
    for side in sides:
        without_cells = {machine.id for machine in side.run.info.machines}
        for machine in sorted({*map(_named, side.machines.values() or [without_cells])}):
            groups.setdefault((side.run.info.device, machine), []).append(side)
    return [
        _history(device, machine, group, dates, chosen, detect)
        for (device, machine), group in sorted(groups.items(), key=lambda item: item[0])
    ]


def _named(machines: Iterable[str]) -> str:
    return ", ".join(name or UNKNOWN for name in sorted(machines)) or UNKNOWN


def _history(
    device: str,
    machine: str,
    sides: Sequence[Side],
    dates: Mapping[str, datetime],
    chosen: Chosen,
    detect: Detect | None,
) -> History:
    points = {id(side): _point(side, dates) for side in sides}
    ordered = sorted(sides, key=lambda side: (points[id(side)].date, side.run.info.started))
    margin = 1 + max(side.noises["seconds"].declared for side in ordered)
    cells = _cells(ordered, machine, chosen)
    timed = on_one_scale(ordered)
    seconds = {place: _seconds(timed, machine, cell) for place, cell in cells.items()}
    seconds = {place: found for place, found in seconds.items() if any(s for s in found)}
    if not chosen.lengths:
        seconds = _of_longest(seconds)
    changes = _changes(list(seconds.values()), margin, detect)
    lines = [
        Line(place, found, marked)
        for (place, found), marked in zip(seconds.items(), changes, strict=True)
    ]
    listed = [points[id(side)] for side in ordered]
    return History(ordered[0].run.info.suite, device, machine, listed, lines, margin)


def _point(side: Side, dates: Mapping[str, datetime]) -> Point:
    info = side.run.info
    date = dates.get(commit_of(info) or "")
    return Point(
        side.name, short_commit(info), date or _parsed(info.started), date is not None, info.started
    )


def _parsed(started: str) -> datetime:
    try:
        found = datetime.fromisoformat(started)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # of a run.json that was written by hand
        return datetime.min.replace(tzinfo=UTC)


def _is_of(machine: str, side: Side, cell_id: str) -> bool:
    """Whether this machine has measured a cell in a run."""
    return cell_id in side.machines and _named(side.machines[cell_id]) == machine


def _cells(sides: Sequence[Side], machine: str, chosen: Chosen) -> dict[Key, Cell]:
    """The chosen cells that the machine measured, in the order of the newest run's tables.

    Of all lengths if none is chosen.
    """
    records = [
        record for side in sides for record in side.grid.records if _is_of(machine, side, record.id)
    ]
    grid = Grid(records, variant_order(sides[-1].run.info))
    cells = {grid.key(record.cell): record.cell for record in records}
    shown: dict[Key, Cell] = {}
    for key in grid.keys:
        if (
            key in cells
            and not key.replica
            and (not chosen.lengths or key.seq_len in chosen.lengths)
            and (not chosen.variants or key.variant in chosen.variants)
            and (not chosen.frameworks or key.framework in chosen.frameworks)
        ):
            shown[key] = cells[key]
    return shown


def _of_longest(seconds: Mapping[Key, list[float | None]]) -> dict[Key, list[float | None]]:
    """Of each variant, framework and mode the longest length that its newest run has measured."""
    found: dict[Key, Key] = {}

    def newest(key: Key) -> tuple[int, int]:
        return max(at for at, s in enumerate(seconds[key]) if s), key.seq_len

    for key in seconds:
        place = key._replace(seq_len=0)
        if place not in found or newest(key) > newest(found[place]):
            found[place] = key
    kept = set(found.values())
    return {key: own for key, own in seconds.items() if key in kept}


def _seconds(sides: Sequence[Side], machine: str, cell: Cell) -> list[float | None]:
    """The geometric mean of the rounds in each run on this machine."""
    found: list[float | None] = []
    for side in sides:
        is_here = _is_of(machine, side, cell.id)
        sample = side.grid.sample(side.key(cell)) if is_here else "not run"
        found.append(None if isinstance(sample, str) else math.exp(float(np.mean(sample.logs))))
    return found


def _changes(
    series: Sequence[Sequence[float | None]], margin: float, detect: Detect | None
) -> list[list[Change]]:
    if detect is None:
        return [[] for _ in series]
    known = [[(at, s) for at, s in enumerate(found) if s] for found in series]
    positions = detect([[math.log(s) for _, s in points] for points in known])
    return [_marked(points, found, margin) for points, found in zip(known, positions, strict=True)]


def _marked(
    points: Sequence[tuple[int, float]], positions: Sequence[int], margin: float
) -> list[Change]:
    """The changes between neighbouring levels that are larger than the margin."""
    ends = [0, *positions, len(points)]
    levels = [
        float(np.mean([math.log(s) for _, s in points[start:end]])) for start, end in pairwise(ends)
    ]
    found = []
    for position, before, after in zip(positions, levels, levels[1:], strict=False):
        if abs(after - before) > math.log(margin):
            verdict: Literal["slower", "faster"] = "slower" if after > before else "faster"
            found.append(Change(points[position][0], math.exp(after - before), verdict))
    return found
