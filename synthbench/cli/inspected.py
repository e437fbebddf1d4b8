"""The models that `synthbench inspect` draws: from checkpoints, kept by a run, or trained now."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from synthbench.cli.inspected_cells import Wanted, cell_of, steps_of
from synthbench.cli.output import complain, say

if TYPE_CHECKING:
    from synthbench.mixers.base import Array
    from synthbench.suites.cell import Cell

START = "at the start"
END = "after training"
LEAST_BATCH = 16  # of a training that the run did not do
MOST_BYTES = 240  # of a name: file systems take 255, and "-histograms.svg" follows

Parameters = dict[str, "Array"]


@dataclass(frozen=True)
class Inspected:
    """A model with its parameters by state, and what its files are called."""

    cell: Cell  # of a learning task
    states: Mapping[str, Parameters]
    name: str
    awaits_training: bool = False
    stop_after: int | None = None  # steps of that training; None: all of its task


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


def from_run(run: Path, variant: str, wanted: Wanted) -> Inspected:
    """The model of a variant as its run kept it, or else one that `trained` trains."""
    from synthbench.checkpoint import read_checkpoint
    from synthbench.run.folders import CHECKPOINTS
    from synthbench.tasks.training import as_learning

    cell = cell_of(run, variant, wanted)
    path = run / CHECKPOINTS / f"{cell.id}.npz"
    if wanted.is_as_run(cell) and path.is_file():
        _, parameters = read_checkpoint(path)
        return Inspected(cell, {START: _start(cell), END: parameters}, file_name(cell))
    steps = steps_of(run, cell) if wanted.is_as_run(cell) else None
    shown, stop_after = cell, steps  # the training of the run once more, if it did one
    if steps is None:
        shown = cell.changed(batch=wanted.batch or max(cell.batch, LEAST_BATCH))
    shown = as_learning(shown, wanted.task, wanted.steps or None)
    start, awaits = {START: _start(shown)}, wanted.steps != 0
    return Inspected(shown, start, file_name(cell), awaits, stop_after)


def trained(model: Inspected, plugins: list[str]) -> Inspected:
    """The model with its parameters after a training too, where it awaits one."""
    if not model.awaits_training:
        return model
    states = {**model.states, **_trained(model.cell, plugins, model.stop_after)}
    return replace(model, states=states, awaits_training=False)


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


def name_of_all(models: Sequence[Inspected]) -> str:
    """What the files about all models are called: their names, or their number if too long."""
    joined = "-".join(one.name for one in models)
    return joined if len(os.fsencode(joined)) <= MOST_BYTES else f"{len(models)}-models"


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
    """What the files about a cell are called: no path, whatever its model is called."""
    text = f"{cell.label}-{cell.variant}" if cell.label else cell.variant
    kept = "".join(c if c.isalnum() or c in "+-." else "_" for c in text)
    return f"{kept.strip('._')}-{cell.framework}"


def _start(cell: Cell) -> Parameters:
    from synthbench.models.start_values import start_values
    from synthbench.suites.cell import model_of

    return start_values(model_of(cell).parameters(), cell.seed)


def _trained(cell: Cell, plugins: list[str], stop_after: int | None) -> dict[str, Parameters]:
    """The parameters of a learning cell after a training in a process of its framework."""
    from synthbench.run.host_client import Host

    host = Host(cell.framework, plugins=plugins, device=cell.device)
    try:
        trained = host.call(
            "synthbench.tasks.training:train",
            {"cell": cell.model_dump(mode="json"), "stop_after": stop_after},
            timeout_seconds=24 * 3600,
        )
    finally:
        host.stop()
    first, last = trained.losses[0], trained.losses[-1]
    complain(f"{cell.variant}, {cell.task}: loss {first:.3f} at the start, {last:.3f} at the end")
    return {f"after {len(trained.losses)} steps": trained.end}
