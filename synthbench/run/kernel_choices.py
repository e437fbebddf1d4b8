"""The kernels of a run: chosen once, by timing, before its cells; then the same in every round.

Mixers whose forms declare the same kernels at all lengths share a choice: the first of them by name
is timed for all. `synthbench tune` times each of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from synthbench.errors import SynthbenchError
from synthbench.measure.kernel_choice import bare_cell, has_choice, taken_from
from synthbench.record import KernelChoice
from synthbench.run.host_client import Host
from synthbench.run.progress import Observer, describe
from synthbench.suites.cell import Cell

OFFERS = "synthbench.measure.kernel_choice:offers"
CHOOSE = "synthbench.measure.kernel_choice:choose_kernels"
LONGEST = 120.0  # seconds for the choices of one mixer


@dataclass(frozen=True)
class Series:
    """One mixer at several lengths, shortest first, and the kernels that it has at each."""

    cells: tuple[Cell, ...]
    offers: tuple[tuple[str, ...], ...]

    @property
    def same(self) -> tuple[object, ...]:
        """What is equal for mixers that share a choice."""
        first = self.cells[0].changed(variant="")
        return first.id, tuple(cell.seq_len for cell in self.cells), self.offers


def choose_kernels(
    hosts: Mapping[str, Host],
    cells: Iterable[Cell],
    known: Sequence[KernelChoice],
    seconds: float,
    observer: Observer,
    *,
    timeout_seconds: float = LONGEST,
    each: bool = False,
) -> list[KernelChoice]:
    """The choices that cells need and that are not among `known`, within some seconds.

    `timeout_seconds`: of the choices of one mixer. `each`: every mixer is timed, also those that
    declare the same kernels. What is left when the seconds have passed, and what cannot be timed,
    is reported to the observer: those cells use the kernel that needs no measurement.
    """
    end = time.monotonic() + seconds
    found: list[KernelChoice] = []
    left = 0
    timeout = min(timeout_seconds, LONGEST)
    for members in groups_of(series_of(hosts, cells, known, timeout, observer), each):
        if time.monotonic() > end:
            left += sum(len(series.cells) for series in members)
            continue
        made = _choose(hosts, members[0].cells, timeout, observer)
        found += [choice for series in members for choice in shared(series.cells, made)]
    if left:
        observer.note(
            f"kernels were not measured for {left} shapes, which would have taken more than "
            f"{seconds:g} s; their cells use the kernel that needs no measurement"
        )
    return found


def series_of(
    hosts: Mapping[str, Host],
    cells: Iterable[Cell],
    known: Iterable[KernelChoice],
    timeout: float,
    observer: Observer,
) -> list[Series]:
    """The mixers with a choice to make, by name; those at `known` are left out."""
    have = {choice.cell.id for choice in known}
    bare = (bare_cell(cell) for cell in cells if has_choice(cell) and cell.framework in hosts)
    wanted = {cell.id: cell for cell in bare if cell.id not in have}
    found = []
    for framework in dict.fromkeys(cell.framework for cell in wanted.values()):
        own = [cell for cell in wanted.values() if cell.framework == framework]
        observer.stage(f"looking for kernels of {framework} to choose from")
        request = {"cells": [cell.model_dump(mode="json") for cell in own]}
        try:
            offers = hosts[framework].call(OFFERS, request, timeout)
        except SynthbenchError as error:
            observer.note(f"no kernels chosen in {framework}: {error}")
            continue
        by_id = {cell.id: tuple(names) for cell, names in zip(own, offers, strict=True)}
        several = [cell for cell in own if len(by_id[cell.id]) > 1]
        for group in by_length(several):
            found.append(Series(tuple(group), tuple(by_id[cell.id] for cell in group)))
    return sorted(found, key=lambda series: (series.cells[0].variant, series.cells[0].id))


def groups_of(found: Iterable[Series], each: bool) -> list[list[Series]]:
    """Mixers that share a choice, or `each` alone."""
    groups: dict[tuple[object, ...], list[Series]] = {}
    for series in found:
        own = series.cells[0].variant if each else ""
        groups.setdefault((own, *series.same), []).append(series)
    return list(groups.values())


def shared(cells: Sequence[Cell], made: Iterable[KernelChoice]) -> list[KernelChoice]:
    """The choices for cells: their own, or those made for another mixer at the same lengths."""
    by_length = {choice.cell.seq_len: choice for choice in made}
    found = []
    for cell in cells:
        choice = by_length.get(cell.seq_len)
        if choice is not None:
            found.append(choice if choice.cell == cell else taken_from(cell, choice))
    return found


def _choose(
    hosts: Mapping[str, Host], cells: Sequence[Cell], timeout: float, observer: Observer
) -> list[KernelChoice]:
    described = describe(cells[0])
    observer.stage(f"choosing a kernel: {described}, {len(cells)} lengths")
    request = {"cells": [cell.model_dump(mode="json") for cell in cells]}
    try:
        made: list[KernelChoice] = hosts[cells[0].framework].call(CHOOSE, request, timeout)
    except SynthbenchError as error:
        observer.note(f"no kernel chosen for {described}: {error}")
        return []
    return made


def needed_choices(
    cells: Iterable[Cell], cached: Iterable[KernelChoice], known: Iterable[KernelChoice]
) -> list[KernelChoice]:
    """The cached choices that cells need and that are not known yet."""
    have = {choice.cell.id for choice in known}
    wanted = {bare_cell(cell).id for cell in cells if has_choice(cell)} - have
    return [choice for choice in cached if choice.cell.id in wanted]


def by_length(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that differ only in their length, shortest first."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        spec = cell.model.model_copy(update={"max_len": 1})
        groups.setdefault(cell.changed(seq_len=1, model=spec).id, []).append(cell)
    return [sorted(group, key=lambda cell: cell.seq_len) for group in groups.values()]


def kernel_for(cell: Cell, choices: Iterable[KernelChoice]) -> str | None:
    """The name of the kernel that was chosen for a cell; None if none was."""
    if not has_choice(cell):
        return None
    wanted = bare_cell(cell).id
    return next((choice.chosen for choice in choices if choice.cell.id == wanted), None)
