"""Choose the kernels of a form for the shapes of cells, by timing all that it declares."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from synthbench.analysis.kernel_race import race, winner
from synthbench.backends.base import BACKENDS, Backend, Step
from synthbench.backends.kernel_choice import recording_offers, using_kernel
from synthbench.errors import SynthbenchError
from synthbench.measure.allocator import keep_freed_memory
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.timing import timed
from synthbench.models.spec import ModelSpec
from synthbench.models.start_values import start_values
from synthbench.record import KernelChoice, KernelTime
from synthbench.suites.cell import Cell, model_of

SECONDS = 0.3  # per cell, after the kernels are built; the least number of rounds may take longer
Choose = Callable[[Cell], KernelChoice | None]


def has_choice(cell: Cell) -> bool:
    """Whether the form of a cell may have several kernels that a run can choose from.

    What torch.compile makes is not among them: it chooses by itself.
    """
    return cell.form != "reference" and not (
        cell.framework == "torch" and cell.compile == "compiled"
    )


def bare_cell(cell: Cell) -> Cell:
    """The cell of the mixer alone at the shapes of a cell: cells that share it share a kernel."""
    sizes = {n: getattr(cell.model, n) for n in ("d_model", "heads", "head_dim", "max_len")}
    bare = ModelSpec(kind="mixer", **sizes)
    return cell.changed(model=bare, task="cost", options={}, seed=0, label="", replica=0)


def offers(cells: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The kernels that each bare cell, given as JSON, could use; none where it cannot run."""
    return [_offers_of(Cell.model_validate(cell)) for cell in cells]


def _offers_of(cell: Cell) -> list[str]:
    backend = _backend_of(cell)
    try:
        model = model_of(cell)
        if backend.form_of(model.mixer, cell.form) != "fused":  # a plug-in's own code, say
            return []
        batch = random_batch(model, cell.batch, cell.seq_len)
        return backend.offer_kernels(model, setting_of(cell), cell.mode, batch)
    except Exception:  # whatever is wrong with a mixer, the check of its results will say it
        return []


def choose_kernels(cells: Sequence[dict[str, Any]], seconds: float = SECONDS) -> list[KernelChoice]:
    """The choices for bare cells, given as JSON, that differ in their length alone.

    `seconds`: of each race. Cells that cannot be run are left out.
    """

    def choose(cell: Cell) -> KernelChoice | None:
        try:
            return choice_of(_backend_of(cell), cell, seconds)
        except SynthbenchError:  # as for `offers`
            return None

    asked = sorted(map(Cell.model_validate, cells), key=lambda cell: cell.seq_len)
    return choose_between(asked, choose)


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
            for place in range(first + 1, last):
                found[place] = taken_from(cells[place], low, high)
            return
        middle = (first + last) // 2
        between(first, middle)
        between(middle, last)

    between(0, len(cells) - 1)
    return [choice for _, choice in sorted(found.items()) if choice is not None]


def taken_from(cell: Cell, *choices: KernelChoice) -> KernelChoice:
    """The choice for a cell that was not timed itself: that of others with the same kernels."""
    like = [
        place
        for choice in choices
        for place in choice.like or [f"{choice.cell.variant} at {choice.cell.seq_len}"]
    ]
    return KernelChoice(cell=cell, chosen=choices[0].chosen, like=like)


def choice_of(backend: Backend, cell: Cell, seconds: float = SECONDS) -> KernelChoice | None:
    """The choice for a bare cell in this process; None if there is none to make."""
    model, setting = model_of(cell), setting_of(cell)
    batch = random_batch(model, cell.batch, cell.seq_len)
    start = start_values(model.parameters())

    def built(name: str | None) -> Step:
        step = backend.build(model, start, setting, cell.mode, batch)
        with using_kernel(name):
            step.compile()
            step.wait(step())
        return step

    with recording_offers() as found:
        first = built(None)
    names = list(found)
    if len(names) < 2:
        return None
    keep_freed_memory()
    steps, failed = {names[0]: first}, {}
    for name in names[1:]:
        try:
            steps[name] = built(name)
        except Exception as error:  # a kernel that fails here is not one to choose
            failed[name] = f"{type(error).__name__}: {error}"
    samples = race(list(steps), _timer(steps), seconds)
    return KernelChoice(
        cell=cell,
        chosen=winner(samples),
        kernels=[
            KernelTime(name=name, samples=[round(value, 9) for value in found])
            for name, found in samples.items()
        ],
        failed=failed,
    )


def _timer(steps: dict[str, Step]) -> Callable[[str], float]:
    def once(name: str) -> float:
        step = steps[name]
        with using_kernel(name):
            return timed(step, step.wait)

    return once


def _backend_of(cell: Cell) -> Backend:
    return cast(Backend, importlib.import_module(BACKENDS[cell.framework]))
