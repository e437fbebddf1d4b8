"""Plans: the cells of a suite on one device, and the cells that cannot exist with the reason."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthbench.devices import device_kind, device_names
from synthbench.errors import NotationError, ShapeError, UnsupportedError
from synthbench.mixers.notation import canonical
from synthbench.suites.axes import Axes
from synthbench.suites.by_task import settings_for, why_empty, with_axes
from synthbench.suites.cell import Cell, Compile, Framework, model_of
from synthbench.suites.expansion import expand_all
from synthbench.suites.selection import FRAMEWORKS as FRAMEWORKS
from synthbench.suites.selection import (
    choose_frameworks,
    find_baseline,
    notes_on_repeats,
    notes_on_sizes,
    replaced_axes,
    sizes_of_mixers,
    unique,
    variants_of_file,
)
from synthbench.suites.settings import Settings
from synthbench.suites.suite import Suite

DEFAULT_COMPILE: dict[Framework, Compile] = {"torch": "eager", "jax": "compiled"}


@dataclass(frozen=True)
class Skip:
    """A cell that cannot exist, and why."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a run measures."""

    suite: str  # its name
    source: str  # its file
    device: str  # or several, as cuda:0,cuda:1
    settings: Settings
    cells: tuple[Cell, ...]
    skipped: tuple[Skip, ...]
    notes: tuple[str, ...] = ()  # what a person should know before it runs

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """The frameworks of the cells that can exist."""
        present = {cell.framework for cell in self.cells}
        return tuple(framework for framework in FRAMEWORKS if framework in present)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of its cells, each of which has its own."""
        return device_names(self.device)

    def dump(self) -> dict[str, Any]:
        """The plan as JSON-able data, for another process."""
        return {
            "suite": self.suite,
            "source": self.source,
            "device": self.device,
            "settings": self.settings.model_dump(mode="json"),
            "cells": [cell.model_dump(mode="json") for cell in self.cells],
            "skipped": [[skip.cell.model_dump(mode="json"), skip.reason] for skip in self.skipped],
            "notes": list(self.notes),
        }

    @classmethod
    def load(cls, content: Mapping[str, Any]) -> Plan:
        """Read what `dump` gave; raises ValidationError for anything else."""
        skipped = [Skip(Cell.model_validate(cell), reason) for cell, reason in content["skipped"]]
        return cls(
            suite=content["suite"],
            source=content["source"],
            device=content["device"],
            settings=Settings.model_validate_json(json.dumps(content["settings"])),
            cells=tuple(map(Cell.model_validate, content["cells"])),
            skipped=tuple(skipped),
            notes=tuple(content["notes"]),
        )


def make_plan(
    suite: Suite,
    device: str,
    frameworks: Iterable[str] | None = None,
    variants: Iterable[str] | None = None,
    seq_lens: Iterable[int] | None = None,
    force: bool = False,
    check: Callable[[Cell], None] = lambda cell: None,
    begin: Callable[[Cell], None] = lambda cell: None,
    modes: Iterable[str] | None = None,
    batches: Iterable[int] | None = None,
) -> Plan:
    """List the cells of a suite on a device, by its name (`devices.py`).

    `frameworks` selects from the suite's; `variants` (any notation), `seq_lens`, `modes` and
    `batches` replace its axes, also in the plan's settings. With A/A twins (`measure.aa`) each
    cell of the baseline has a second one, `replica` 1. `force` also runs what is predicted not to
    fit into memory, whatever the suite says; `check` raises where a cell's task cannot do it, and
    `begin` is called before each cell is checked. A selection without the baseline, or a suite that
    has none and names none, is noted: there will be no ratios. Raises UnknownNameError or
    NotationError for what cannot be read, and for a baseline that the suite names and does not
    measure.
    """
    kind = device_kind(device).name
    settings = suite.settings(kind)
    axes, measure = settings.axes, settings.measure
    chosen = choose_frameworks(suite, axes.framework, frameworks)
    lists: dict[str, Sequence[Any]] = {n: own for n, own in axes if isinstance(own, tuple)}
    if variants is None:
        lists["variant"] = variants_of_file(suite, axes.variant)
        names = unique(lists["variant"])
    else:
        del lists["variant"]
        names = unique(map(canonical, expand_all(variants)))
    replaced = replaced_axes(seq_lens, modes, batches)
    lists = {name: values for name, values in lists.items() if name not in replaced}
    if not (chosen and names):
        raise NotationError("nothing to run: an empty list of frameworks or variants")
    baseline, notes = find_baseline(suite, settings, names, selected=variants is not None)
    notes = (*notes, *notes_on_repeats(suite, lists))
    if variants is None:
        notes = (*notes, *notes_on_sizes(suite, settings, names))
    if substitute := suite.substitute_for(kind):
        used = f"suite {suite.name} has no section devices.{kind}; its settings are {substitute}"
        notes = (used, *notes)
    twin_of = baseline if measure.has_twins else None
    selected = {"variant": names, "framework": chosen}
    settings = settings.model_copy(
        update={
            "measure": measure.model_copy(update={"force": force or measure.force}),
            "axes": axes.model_copy(update=selected),
            "baseline": baseline,  # as cells name it: who reads a plan may not have the plug-in
        }
    )
    settings = with_axes(settings, replaced)
    cells: dict[str, Cell] = {}
    skipped: dict[str, Skip] = {}
    empty: list[str] = []
    for task in dict.fromkeys(axes.task):
        own = list(every_cell(suite.source, settings_for(settings, task), task, device))
        if not own:
            empty.append(f"{suite.source}: {why_empty(settings, task)}")
        for cell in own:
            begin(cell)
            reason = why_impossible(cell, check)
            if reason is not None:
                skipped[cell.id] = Skip(cell, reason)
                continue
            cells[cell.id] = cell
            if cell.variant == twin_of:
                twin = Cell.model_validate(cell.model_dump() | {"replica": 1})
                cells[twin.id] = twin
    if not (cells or skipped):
        raise NotationError(f"{empty[0]}; give a larger number, or smaller lengths or batches")
    return Plan(
        suite=suite.name,
        source=suite.source,
        device=device,
        settings=settings,
        cells=tuple(cells.values()),
        skipped=tuple(skipped.values()),
        notes=(*notes, *(f"{reason}; none of it runs" for reason in empty)),
    )


def every_cell(source: str, settings: Settings, task: str, device: str) -> Iterator[Cell]:
    """Every combination of a task's axes that has few enough tokens, in the order of the settings.

    `settings` are those of the task; `source` is their file. Not the A/A twins.
    """
    axes = settings.axes
    models = settings.models or {"": settings.model}
    own_sizes = {label: sizes_of_mixers(source, model.mixers) for label, model in models.items()}
    seeds = axes.seed or (settings.measure.seed,)
    of_run = itertools.product(models, seeds, axes.devices or (1,))
    of_step = itertools.product(axes.mode, axes.variant, axes.framework)
    for (label, seed, devices), seq_len, batch, replaced, dtype, form, (
        mode, name, framework
    ) in itertools.product(
        of_run, axes.seq_len, axes.batch, _model_values(axes), axes.dtype, axes.form, of_step
    ):  # fmt: skip
        if seq_len * batch > (axes.tokens_at_most or math.inf):
            continue
        for compiled in axes.compile or (DEFAULT_COMPILE[framework],):
            yield Cell(
                variant=name, framework=framework, task=task,
                options=settings.tasks.get(task, {}), mode=mode, seq_len=seq_len, batch=batch,
                model=models[label].spec(seq_len, replaced, own_sizes[label].get(name)),
                dtype=dtype, device=device, form=form, compile=compiled,
                seed=seed, label=label, devices=devices,
            )  # fmt: skip


def _model_values(axes: Axes) -> list[dict[str, Any]]:
    """Every combination of the axes over fields of the model; one empty one without such axes."""
    of_model = axes.of_model()
    return [
        dict(zip(of_model, values, strict=True)) for values in itertools.product(*of_model.values())
    ]


def why_impossible(cell: Cell, check: Callable[[Cell], None]) -> str | None:
    """The reason why a cell cannot exist; None where it can. `check` is that of its task."""
    if cell.framework == "jax" and cell.compile == "eager":
        return "jax is always compiled here: its eager mode dispatches each operation on its own"
    if cell.compile == "cuda_graph":
        if cell.framework == "jax":
            return "XLA makes CUDA graphs by itself; use compile: compiled for jax"
        if not device_kind(cell.device).has_graphs:
            return "CUDA graphs need a CUDA device; use compile: eager or compiled"
    if reason := device_kind(cell.device).impossible.get(cell.dtype):
        return reason
    if cell.batch % cell.devices:
        return (
            f"batch {cell.batch} cannot be divided by {cell.devices} devices; give a multiple of "
            f"{cell.devices}, or other devices"
        )
    try:
        model_of(cell)
        check(cell)
    except (ShapeError, UnsupportedError, NotationError) as error:
        return str(error)
    return None
