"""The models that `synthbench inspect` draws: from checkpoints, kept by a run, or trained now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from synthbench.cli.output import complain, say
from synthbench.errors import NotationError, UnknownNameError

if TYPE_CHECKING:
    from synthbench.mixers.base import Array
    from synthbench.suites.cell import Cell

START = "at the start"
END = "after training"
LEAST_BATCH = 16  # of a cell that trained nothing

Parameters = dict[str, "Array"]


@dataclass(frozen=True)
class Inspected:
    """A model with its parameters by state, and what its files are called."""

    cell: Cell  # of a learning task
    states: Mapping[str, Parameters]
    name: str


@dataclass(frozen=True)
class Wanted:
    """What a person asks for; None: that of the cell."""

    framework: str | None = None
    seed: int | None = None
    task: str | None = None
    steps: int | None = None
    batch: int | None = None

    @property
    def is_as_kept(self) -> bool:
        """Whether the training of the run is the one that is asked for."""
        return (self.task, self.steps, self.batch) == (None, None, None)


def from_checkpoint(path: Path, task: str | None) -> Inspected:
    """The model of a checkpoint, and the start values of its seed where it has other ones."""
    import numpy as np

    from synthbench.checkpoint import read_checkpoint
    from synthbench.tasks.training import as_learning

    cell, parameters = read_checkpoint(path)
    of_run = path.stem == cell.id  # a file that a run kept is called like its cell
    states = {END if of_run else path.stem: parameters}
    start = _start(cell)
    if any(not np.array_equal(start[name], parameters[name]) for name in start):
        states = {START: start} | states
    return Inspected(as_learning(cell, task), states, file_name(cell) if of_run else path.stem)


def from_run(run: Path, variant: str, wanted: Wanted, plugins: list[str]) -> Inspected:
    """The model of a variant as its run kept it, or else trained now."""
    from synthbench.checkpoint import read_checkpoint
    from synthbench.run.folders import CHECKPOINTS
    from synthbench.tasks.training import as_learning

    cell = _choose(run, variant, wanted)
    path = run / CHECKPOINTS / f"{cell.id}.npz"
    if wanted.is_as_kept and path.is_file():
        _, parameters = read_checkpoint(path)
        return Inspected(cell, {START: _start(cell), END: parameters}, file_name(cell))
    shown = cell.changed(batch=wanted.batch or max(cell.batch, LEAST_BATCH))
    shown = as_learning(shown, wanted.task, wanted.steps or None)
    states = {START: _start(shown)}
    if wanted.steps != 0:
        states |= _trained(shown, plugins)
    return Inspected(shown, states, file_name(cell))


def variants_of(run: Path, asked: Sequence[str]) -> list[str]:
    """The variants that are asked for, in canonical notation; without any V, or the first.

    Raises UnknownNameError for one that the run does not have.
    """
    from synthbench.mixers.notation import canonical

    known = list(dict.fromkeys(cell.variant for cell in _cells(run)))
    names = [canonical(name) for name in asked] or ["V" if "V" in known else known[0]]
    for name in names:
        if name not in known:
            raise UnknownNameError("variant of this run", name, known)
    return list(dict.fromkeys(names))


def with_different_names(models: Sequence[Inspected]) -> list[Inspected]:
    """The models with names that differ: no file of one may replace that of another."""
    names = _first_different(
        [one.name for one in models],
        [f"{one.name}-seed{one.cell.seed}" for one in models],
        [f"{number}-{one.name}" for number, one in enumerate(models, start=1)],
    )
    return [replace(one, name=name) for one, name in zip(models, names, strict=True)]


def labels_of(models: Sequence[Inspected]) -> list[str]:
    """What tells models apart: their variants, or else framework, seed and file beside them."""
    cells = [one.cell for one in models]
    return _first_different(
        [cell.variant for cell in cells],
        [f"{cell.variant} in {cell.framework}" for cell in cells],
        [f"{cell.variant} in {cell.framework}, seed {cell.seed}" for cell in cells],
        [f"{one.cell.variant}, {one.name}" for one in models],
    )


def _first_different(*choices: list[str]) -> list[str]:
    """The first of some lists in which no text comes twice; the last is such a one."""
    return next(texts for texts in choices if len(set(texts)) == len(texts))


def keep(models: Iterable[Inspected], folder: Path) -> None:
    """Save the parameters of every state as a checkpoint, and say where."""
    from synthbench.checkpoint import write_checkpoint

    for one in models:
        for state, parameters in one.states.items():
            path = folder / f"{one.name}-{state.replace(' ', '-')}.npz"
            write_checkpoint(path, one.cell, parameters)
            say(path)


def file_name(cell: Cell) -> str:
    """What the files about a cell are called."""
    kept = "".join(c if c.isalnum() or c in "+-." else "_" for c in cell.variant)
    label = f"{cell.label}-" if cell.label else ""
    return f"{label}{kept.strip('_')}-{cell.framework}"


def _start(cell: Cell) -> Parameters:
    from synthbench.models.start_values import start_values
    from synthbench.suites.cell import model_of

    return start_values(model_of(cell).parameters(), cell.seed)


def _trained(cell: Cell, plugins: list[str]) -> dict[str, Parameters]:
    """The parameters of a learning cell after a training in a process of its framework."""
    from synthbench.run.host_client import Host

    host = Host(cell.framework, plugins=plugins, device=cell.device)
    try:
        trained = host.call(
            "synthbench.tasks.training:train",
            {"cell": cell.model_dump(mode="json")},
            timeout_seconds=24 * 3600,
        )
    finally:
        host.stop()
    first, last = trained.losses[0], trained.losses[-1]
    complain(f"{cell.variant}, {cell.task}: loss {first:.3f} at the start, {last:.3f} at the end")
    return {f"after {len(trained.losses)} steps": trained.end}


def _cells(run: Path) -> list[Cell]:
    from synthbench.store import read_run

    cells = [record.cell for record in read_run(run).records]
    if not cells:
        raise NotationError(
            f"{run} has no records yet, so there is no model to draw; choose another run"
        )
    return cells


def _choose(run: Path, variant: str, wanted: Wanted) -> Cell:
    """The longest cell of a variant, of the task that is asked for and a train step if possible."""
    cells = _cells(run)
    frameworks = sorted({cell.framework for cell in cells}, reverse=True)
    if wanted.framework is not None and wanted.framework not in frameworks:
        raise UnknownNameError("framework of this run", wanted.framework, frameworks)
    chosen = wanted.framework or frameworks[0]
    own = [c for c in cells if (c.variant, c.framework) == (variant, chosen) and not c.replica]
    if not own:
        raise NotationError(f"{run} has no cell of {variant} in {chosen}")
    seeds = sorted({cell.seed for cell in own})
    if wanted.seed is not None and wanted.seed not in seeds:
        raise UnknownNameError("seed of this run", str(wanted.seed), map(str, seeds))
    fitting = [cell for cell in own if wanted.seed in (None, cell.seed)]
    return max(
        fitting,
        key=lambda cell: (
            cell.task == wanted.task, cell.mode == "train", cell.seq_len, -cell.seed
        ),
    )  # fmt: skip
