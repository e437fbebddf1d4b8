"""Which cells need another round, or another attempt, before the run can say something of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from synthbench.record import Record, RunInfo, latest


class Undecided(NamedTuple):
    """The comparisons without a verdict, and the ids of the cells that another round needs."""

    comparisons: int
    cells: frozenset[str]


def undecided(records: Sequence[Record], info: RunInfo, most_rounds: int) -> Undecided:
    """What is undecided and has fewer than `most_rounds` rounds, with its baselines and twins."""
    from synthbench.analysis.comparison import Comparison  # pandas and scipy: only where needed
    from synthbench.report.data.context import context_of, variant_order
    from synthbench.report.data.grid import Grid
    from synthbench.report.tables.ratios import compare_all, judge_all
    from synthbench.store import Run

    grid = Grid(records, variant_order(info))
    context = context_of(Run(Path(), info, list(records), []), grid)
    found = compare_all(grid, context.baseline)
    compared = {key: one for key, one in found.items() if isinstance(one, Comparison)}
    cells: set[str] = set()
    count = 0
    for key, judged in zip(compared, judge_all(compared, context.noise), strict=True):
        if key.replica or judged.verdict != "undecided" or judged.estimate.rounds >= most_rounds:
            continue
        count += 1
        baseline = key._replace(variant=context.baseline, replica=0)
        for each in (key, baseline, baseline._replace(replica=1)):
            if each in grid.ids:
                cells.add(grid.ids[each])
    return Undecided(count, frozenset(cells))


def disturbed(records: Iterable[Record]) -> set[tuple[str, int]]:
    """Cell and round of what was disturbed in its last attempt."""
    return {
        (r.id, r.round) for r in latest(records) if r.outcome == "ok" and r.measurements.warnings
    }
