"""Which cells need another round before the run can say something of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from synthbench.record import Record
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
    grid, baseline = prepared.cost_grid, prepared.context.baseline  # whose keys verdicts have
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
        if not grid.paired_rounds(key, own):
            needed.add(own)
        cells |= {grid.ids[each] for each in needed if each in grid.ids}
    return Undecided(count, frozenset(cells))
