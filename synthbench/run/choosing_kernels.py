"""The kernels for the cells of one place: those chosen here before, and what is still missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from synthbench.measure.kernel_cache import read_choices, store_choices
from synthbench.measure.kernel_choice import has_choice
from synthbench.record import Record
from synthbench.run.cell_runner import CellRunner
from synthbench.run.kernel_choices import Race, needed_choices
from synthbench.suites.cell import Cell


def choose_kernels(
    runner: CellRunner,
    cells: Sequence[Cell],
    cache: Path,
    earlier: Iterable[Record] = (),
    baseline: str = "",
) -> None:
    """Add the choices that cells need to those of the runner; what `earlier` records used stays.

    It waits for the device. What is chosen is kept in the `cache`, except for plug-ins. The
    `baseline` is a variant as cells name it.
    """
    measure = runner.measure
    # A cell without a choice, as of the reference form, decides nothing for the others.
    used = [r.cell for r in earlier if r.outcome == "ok" and has_choice(r.cell)]
    used += [choice.cell for choice in runner.choices]
    with runner.lock.held():  # another run that had it may have stored what is needed here
        cached = read_choices(cache)
        sure = [choice for choice in cached if not choice.warnings]
        doubtful = [choice for choice in cached if choice.warnings]
        runner.choices += needed_choices(cells, sure, used)
        runner.count_distances(runner.choices)
        runner.count_distances(needed_choices(cells, doubtful, used))
        race = Race(
            runner.hosts, runner.observer, measure.kernel_seconds, measure.timeout_seconds,
            runner.limits().memory_bytes, runner.usual_distance, baseline,
        )  # fmt: skip
        decided = [*used, *(choice.cell for choice in runner.choices)]
        for made in race.choose(cells, decided, doubtful, sure):
            runner.choices += made.choices
            runner.counted.update(choice.cell.id for choice in made.choices)
            if made.is_own:
                store_choices(cache, made.choices)
