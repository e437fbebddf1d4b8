"""The kernels of a run: chosen once, by timing, before its cells; then the same in every round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from synthbench.errors import SynthbenchError
from synthbench.measure.kernel_choice import bare_cell, has_choice
from synthbench.record import KernelChoice
from synthbench.run.host_client import Host
from synthbench.run.progress import Observer, describe
from synthbench.suites.cell import Cell

CHOOSE = "synthbench.measure.kernel_choice:choose_kernel"
TIMEOUT_SECONDS = 120.0  # of one choice
Choose = Callable[[Cell], KernelChoice | None]


def choose_kernels(
    hosts: Mapping[str, Host],
    cells: Iterable[Cell],
    known: Sequence[KernelChoice],
    seconds: float,
    observer: Observer,
) -> list[KernelChoice]:
    """The choices that cells need and that are not among `known`, within some seconds.

    What is left then, and what cannot be timed, is reported to the observer: those cells use the
    kernel that needs no measurement.
    """
    end = time.monotonic() + seconds
    left = 0

    def choose(cell: Cell) -> KernelChoice | None:
        nonlocal left
        if time.monotonic() > end:
            left += 1
            return None
        observer.stage(f"choosing a kernel: {describe(cell)}")
        request = {"cell": cell.model_dump(mode="json")}
        try:
            found: KernelChoice | None = hosts[cell.framework].call(
                CHOOSE, request, TIMEOUT_SECONDS
            )
        except SynthbenchError as error:
            observer.note(f"no kernel chosen for {describe(cell)}: {error}")
            return None
        return found

    have = {choice.cell.id for choice in known}
    bare = (bare_cell(cell) for cell in cells if has_choice(cell) and cell.framework in hosts)
    wanted = {cell.id: cell for cell in bare if cell.id not in have}
    groups = by_length(wanted.values())
    found = [choice for group in groups for choice in choose_between(group, choose)]
    if left:
        observer.note(
            f"kernels were not measured for {left} shapes, which would have taken more than "
            f"{seconds:g} s; their cells use the kernel that needs no measurement"
        )
    return found


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


def choose_between(cells: Sequence[Cell], choose: Choose) -> list[KernelChoice]:
    """The choices for lengths in order: where the same kernel wins on either side, it is taken."""
    found: dict[int, KernelChoice | None] = {}

    def at(place: int) -> KernelChoice | None:
        if place not in found:
            found[place] = choose(cells[place])
        return found[place]

    def between(first: int, last: int) -> None:
        low, high = at(first), at(last)
        if last - first < 2:
            return
        if low is not None and high is not None and low.chosen == high.chosen:
            like = [cells[first].seq_len, cells[last].seq_len]
            for place in range(first + 1, last):
                found[place] = KernelChoice(cell=cells[place], chosen=low.chosen, like=like)
            return
        middle = (first + last) // 2
        between(first, middle)
        between(middle, last)

    between(0, len(cells) - 1)
    return [choice for _, choice in sorted(found.items()) if choice is not None]


def kernel_for(cell: Cell, choices: Iterable[KernelChoice]) -> str | None:
    """The name of the kernel that was chosen for a cell; None if none was."""
    if not has_choice(cell):
        return None
    wanted = bare_cell(cell).id
    return next((choice.chosen for choice in choices if choice.cell.id == wanted), None)
