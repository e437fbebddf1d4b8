"""Mixers at several lengths: which of them share a choice of kernels, and what they take of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from synthbench.measure.kernel_choice import Offer
from synthbench.mixers.catalog import SHOWCASE
from synthbench.run.kernel_search import Search, taken_from
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell

FARTHEST = math.log(4)  # `Series.distance`; one with ten times the work has other best kernels


@dataclass(frozen=True)
class Series:
    """One mixer at several lengths, shortest first, and what it offers at each."""

    cells: tuple[Cell, ...]
    offers: tuple[Offer, ...]

    @property
    def same(self) -> tuple[object, ...]:
        """What is equal for mixers that can share a choice."""
        first = self.cells[0].changed(variant="")
        offers = tuple((offer.kernels, offer.work) for offer in self.offers)
        return first.id, tuple(cell.seq_len for cell in self.cells), offers

    def distance(self, other: Series) -> float:
        """How much the work of two mixers with the same kernels differs, at their longest length.

        As the logarithm of the ratio of their FLOPs; infinite where one has no formula.
        """
        own, others = self.offers[-1].flops, other.offers[-1].flops
        return abs(math.log(own / others)) if own and others else math.inf

    @property
    def rank(self) -> tuple[object, ...]:
        """Its place in an order that does not depend on the suite.

        Where most kernels are, most can be gained; then well-known mixers come first.
        """
        variant = self.cells[0].variant
        place = SHOWCASE.index(variant) if variant in SHOWCASE else len(SHOWCASE)
        most = max(len(offer.kernels) for offer in self.offers)
        return -most, place, variant, self.cells[0].id


def by_length(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that differ only in their length, shortest first.

    A `max_len` that is the length itself differs with it; any other is the same for all.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(of_any_length(cell).id, []).append(cell)
    return [sorted(group, key=lambda cell: cell.seq_len) for group in groups.values()]


def of_any_length(cell: Cell) -> Cell:
    """The cell without its length: equal for those that differ in nothing else."""
    own = cell.model.max_len == cell.seq_len
    spec = cell.model.model_copy(update={"max_len": 1}) if own else cell.model
    return cell.changed(seq_len=1, model=spec)


def of_any_size(cell: Cell) -> str:
    """What is equal for cells that differ only in their length and batch size."""
    return of_any_length(cell).changed(batch=1).id


def groups_of(found: Iterable[Series]) -> list[list[Series]]:
    """Mixers that can share a choice: each is less than FARTHEST from the first of its group."""
    groups: dict[tuple[object, ...], list[list[Series]]] = {}
    for series in found:
        alike = groups.setdefault(series.same, [])
        near = (group for group in alike if group[0].distance(series) < FARTHEST)
        if (group := next(near, None)) is not None:
            group.append(series)
        else:
            alike.append([series])
    return [group for alike in groups.values() for group in alike]


def taken(series: Series, search: Search, first: Search) -> list[KernelChoice]:
    """The choices for the lengths of a mixer that were not timed.

    `search`: its own. Where that has not come to its end, the choices of the `first` mixer of its
    group come before those for other lengths of its own.
    """
    own = [*search.between(), *search.nearest()]
    if not search.wanted or search is first:
        return own
    done = {search.cells[place].id for place in search.known}
    at_length = {choice.cell.seq_len: choice for choice in first.choices}
    made = {choice.cell.id: choice for choice in own}
    for cell in series.cells:
        if cell.id not in done and (choice := at_length.get(cell.seq_len)) is not None:
            made[cell.id] = taken_from(cell, choice)
    return list(made.values())


def taken_of_others(
    series: Series, search: Search, choices: Iterable[KernelChoice]
) -> list[KernelChoice]:
    """What a mixer without choices of its own takes: of the nearest length, then batch size.

    `choices`: those of any mixer, from which its own are taken. There is none where a length
    failed, or where its form lacks that kernel.
    """
    wanted = of_any_size(series.cells[0])
    same = [choice for choice in choices if of_any_size(choice.cell) == wanted]
    made = []
    for place, (cell, offer) in enumerate(zip(series.cells, series.offers, strict=True)):
        fit = [one for one in same if any(one.chosen.is_like(kernel) for kernel in offer.kernels)]
        if fit and place not in search.failed:
            made.append(taken_from(cell, min(fit, key=lambda one: _distance(cell, one.cell))))
    return made


def _distance(cell: Cell, other: Cell) -> tuple[float, ...]:
    """How far another size is: in length, then in batch size; of two equally far, the larger."""
    sizes = ((cell.seq_len, other.seq_len), (cell.batch, other.batch))
    far = [abs(math.log(theirs / own)) for own, theirs in sizes]
    return (*far, -other.seq_len, -other.batch)
