"""What the trainings of a run reached: the values of a metric by seed, at equal steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthbench.analysis.learning import budget_of
from synthbench.metrics import Metric
from synthbench.record import Record
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.quality import Quality
from synthbench.report.data.trainings import Trained, with_other_data
from synthbench.report.paper.check.question import Pair, Question, pairs
from synthbench.suites.cell import Cell


@dataclass(frozen=True)
class TrainedPair:
    """A pair whose mixers were trained: the value of each seed, None for one without a result.

    `quality`: the group of the run's table `quality` that has both; None if there is none.
    """

    pair: Pair
    metric: str
    steps: int  # at which they are compared
    values: tuple[dict[int, float | None], ...]  # of each side: seed -> value
    quality: Quality | None

    @property
    def declared(self) -> Metric:
        """The declaration of the metric."""
        return metric_named(self.metric)

    @property
    def without_result(self) -> str:
        """Which trainings have no result; empty if all have one."""
        parts = [
            f"{sum(v is None for v in of_side.values())} of {len(of_side)} trainings of "
            f"{cell.variant} have no result"
            for cell, of_side in zip(self.pair.cells, self.values, strict=True)
            if None in of_side.values()
        ]
        return "; ".join(parts)

    def known(self, side: int) -> dict[int, float]:
        """Seed -> value of a side, of the trainings with a result."""
        return {seed: value for seed, value in self.values[side].items() if value is not None}


def trained_pairs(
    trainings: Sequence[Record], qualities: Sequence[Quality], question: Question
) -> Iterator[TrainedPair]:
    """The pairs of a run's `training_records` that are of a task of the question's column."""
    groups = {
        trained.record.id: one
        for one in qualities
        for seeds in one.group.variants.values()
        for trained in seeds.values()
    }
    for task, metric in question.column.tasks.items():
        found: dict[str, dict[int, Trained]] = {}
        cells: list[Cell] = []
        records = [one for one in trainings if one.cell.task == task]
        for record in sorted(records, key=lambda one: (one.outcome != "ok", one.round)):
            without_seed = record.cell.changed(seed=0)
            cells.append(without_seed)
            found.setdefault(without_seed.id, {}).setdefault(record.cell.seed, Trained(record))
        for pair in pairs(question, cells):
            yield from _values(pair, metric, [found[cell.id] for cell in pair.cells], groups)


def _values(
    pair: Pair,
    metric: str,
    sides: Sequence[dict[int, Trained]],
    groups: dict[str, Quality],
) -> Iterator[TrainedPair]:
    """The values of a pair; none where no training has the metric.

    Seeds with which the two learned from different data are left out.
    """
    differ = with_other_data(*sides) if len(sides) > 1 else set[int]()
    sides = [{seed: one for seed, one in side.items() if seed not in differ} for side in sides]
    curves = [{seed: one.curve(metric) for seed, one in side.items()} for side in sides]
    known = [groups.get(one.record.id) for side in sides for one in side.values()]
    shared = known[0] if all(one is known[0] for one in known) else None
    budget = budget_of((one for side in curves for one in side.values()), "steps")
    if shared is not None and shared.group.metric == metric:
        budget = shared.group.budgets["steps"]
    if budget is not None:
        values = tuple(
            {seed: one.at("steps", budget) for seed, one in side.items()} for side in curves
        )
        yield TrainedPair(pair, metric, round(budget), values, shared)
