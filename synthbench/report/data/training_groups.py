"""Which records are trainings, and the groups of those that are compared with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from synthbench.errors import SynthbenchError
from synthbench.record import Record, latest
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.setting import differing_fields, setting_of
from synthbench.report.data.trainings import Group, Place, Trained
from synthbench.suites.cell import Cell
from synthbench.tasks.catalog import TASK_REGISTRY, task_of
from synthbench.tasks.learning.base import LearningTask


def trains(cell: Cell, trained: Iterable[str] = ()) -> bool:
    """Whether the task of a cell trains: its class says so, or it is one of these tasks."""
    task = TASK_REGISTRY.known().get(cell.task)
    return cell.task in set(trained) or (task is not None and issubclass(task, LearningTask))


def training_records(records: Iterable[Record]) -> list[Record]:
    """The records of trainings, also of those that failed before anything was stored."""
    counted = latest(records)
    trained = {one.cell.task for one in counted if one.has_training}
    cells = {one.cell.task: one.cell for one in counted}
    tasks = {task for task, cell in cells.items() if trains(cell, trained)}
    return [one for one in counted if one.cell.task in tasks] if tasks else []


def groups_of(records: Iterable[Record], variant_order: Sequence[str]) -> list[Group]:
    """The groups of a run by setting, task, framework and length.

    Seeds are pooled, and no part of the setting. Of several rounds of one training, which are the
    same program with the same data, the first that is ok counts.
    """
    found = training_records(records)
    fields = [
        name for name in differing_fields(one.cell for one in found) if name not in ("seed", "task")
    ]
    by_place: dict[Place, dict[str, dict[int, Trained]]] = {}
    alike: dict[tuple[str, str], list[Cell]] = {}  # all lengths and frameworks
    for record in sorted(found, key=lambda one: (one.outcome != "ok", one.round)):
        cell = record.cell
        place = Place(setting_of(cell, fields), cell.task, cell.framework, cell.seq_len)
        seeds = by_place.setdefault(place, {}).setdefault(cell.variant, {})
        seeds.setdefault(cell.seed, Trained(record))
        alike.setdefault(place[:2], []).append(cell)
    return [
        _group(place, by_place[place], alike[place[:2]], variant_order)
        for place in sorted(by_place, key=_order)
    ]


def _order(place: Place) -> tuple[str, str, int, int]:
    return place.setting, place.task, FRAMEWORKS.index(place.framework), place.seq_len


def _group(
    place: Place,
    trained: Mapping[str, Mapping[int, Trained]],
    cells: Sequence[Cell],
    variant_order: Sequence[str],
) -> Group:
    """The group of a place; a variant or seed of other lengths and frameworks is not run here."""
    variants = {cell.variant for cell in cells}
    known = [name for name in variant_order if name in variants]
    metrics = [
        one.training.metric
        for seeds in trained.values()
        for one in seeds.values()
        if one.training is not None
    ]
    declared = str(getattr(TASK_REGISTRY.known().get(place.task), "metric", ""))
    return Group(
        place,
        (metrics or [declared])[0],
        tuple(sorted({cell.seed for cell in cells})),
        _target(cells[0]),
        {
            name: dict(sorted(trained.get(name, {}).items()))
            for name in [*known, *sorted(variants.difference(known))]
        },
    )


def _target(cell: Cell) -> float | None:
    """The target of a cell's task: its option, or the default of the task."""
    try:
        target = getattr(task_of(cell), "target", None)
    except SynthbenchError:  # of a plug-in that is not loaded
        target = cell.options.get("target")
    return float(target) if isinstance(target, int | float) else None
