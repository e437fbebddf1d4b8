"""Choose the kernel of a form for the shapes of a cell, by timing all that it declares."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

from synthbench.analysis.kernel_race import race, winner
from synthbench.backends.base import BACKENDS, Backend, Step
from synthbench.backends.kernel_choice import recording_offers, using_kernel
from synthbench.measure.allocator import keep_freed_memory
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.timing import timed
from synthbench.models.spec import ModelSpec
from synthbench.models.start_values import start_values
from synthbench.record import KernelChoice, KernelTime
from synthbench.suites.cell import Cell, model_of

SECONDS = 0.3  # per cell, after the kernels are built; the least number of rounds may take longer


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


def choose_kernel(cell: dict[str, Any], seconds: float = SECONDS) -> KernelChoice | None:
    """The choice for a bare cell, given as JSON, in this process; None if there is none to make."""
    asked = Cell.model_validate(cell)
    backend = cast(Backend, importlib.import_module(BACKENDS[asked.framework]))
    return choice_of(backend, asked, seconds)


def choice_of(backend: Backend, cell: Cell, seconds: float = SECONDS) -> KernelChoice | None:
    """Like `choose_kernel`, for a given back end."""
    model, setting = model_of(cell), setting_of(cell)
    batch = random_batch(model, cell.batch, cell.seq_len)
    start = start_values(model.parameters())

    def built(name: str | None) -> Step:
        step = backend.build(model, start, setting, cell.mode, batch)
        with using_kernel(name):
            step.compile()
            step.wait(step())
        return step

    with recording_offers() as offers:
        first = built(None)
    names = list(offers)
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
