"""Which cells need another round, or another attempt, before the run can say something of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from synthbench.measure.core_distance import FAR
from synthbench.record import Record, latest
from synthbench.run_info import RunInfo


class Undecided(NamedTuple):
    """The comparisons without a verdict, and the ids of the cells that another round needs."""

    comparisons: int
    cells: frozenset[str]


def undecided(records: Sequence[Record], info: RunInfo, most_rounds: int) -> Undecided:
    """What is undecided and has fewer than `most_rounds` rounds, with its baselines and twins.

    A baseline that was timed in the processes of the others needs no round of its own.
    """
    from synthbench.analysis.comparison import Judgement  # pandas and scipy: only where needed
    from synthbench.report.data.prepared import prepare
    from synthbench.store import Run

    prepared = prepare(Run(Path(), info, list(records), []))
    ids, baseline = prepared.grid.ids, prepared.context.baseline
    cells: set[str] = set()
    count = 0
    for key, judged in prepared.context.verdicts.items():
        if key.replica or not isinstance(judged, Judgement):
            continue
        if judged.verdict != "undecided" or judged.estimate.rounds >= most_rounds:
            continue
        count += 1
        own = key._replace(variant=baseline, replica=0)
        needed = {key, own._replace(replica=1)}
        if not prepared.grid.paired_rounds(key, own):
            needed.add(own)
        cells |= {ids[each] for each in needed if each in ids}
    return Undecided(count, frozenset(cells))


def disturbed(records: Iterable[Record]) -> set[tuple[str, int]]:
    """Cell and round of what was disturbed in its last attempt.

    So is a cell whose cores were far apart, where most cells of the same machine had near ones: it
    was timed on another machine, in effect. Where the cores of most are far, that is the machine.
    """
    found = [r for r in latest(records) if r.outcome == "ok"]
    by_machine: dict[str, list[bool]] = {}
    for record in found:
        if (far := cores_far(record)) is not None:
            by_machine.setdefault(record.machine, []).append(far)
    near = {machine for machine, far in by_machine.items() if 2 * sum(far) < len(far)}
    return {
        (r.id, r.round)
        for r in found
        if r.measurements.warnings or (r.machine in near and cores_far(r))
    }


def cores_far(record: Record) -> bool | None:
    """Whether cores were far apart before or after the samples; None if that is not known."""
    timing = record.measurements.timing
    if timing is None or timing.core_distances is None:
        return None
    return max(timing.core_distances) > FAR
