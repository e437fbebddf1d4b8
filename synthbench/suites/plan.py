"""Plans: the cells of a suite on one device, and those that cannot exist with the reason."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from synthbench.errors import NotationError, ShapeError, UnknownNameError, UnsupportedError
from synthbench.mixers.notation import canonical
from synthbench.mixers.validation import shorten_list
from synthbench.suites.cell import Cell, Compile, Framework, model_of
from synthbench.suites.settings import MixerSizes, Settings
from synthbench.suites.suite import Suite

FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
DEFAULT_COMPILE: dict[Framework, Compile] = {"torch": "eager", "jax": "compiled"}


@dataclass(frozen=True)
class Skip:
    """A cell that cannot exist, and why."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a run has to do."""

    suite: str  # its name
    source: str  # its file
    device: str
    settings: Settings
    cells: tuple[Cell, ...]
    skipped: tuple[Skip, ...]
    notes: tuple[str, ...] = ()  # what a person should know before it runs

    @property
    def frameworks(self) -> tuple[Framework, ...]:
        """The frameworks of the cells that can exist."""
        present = {cell.framework for cell in self.cells}
        return tuple(framework for framework in FRAMEWORKS if framework in present)


def make_plan(
    suite: Suite,
    device: str,
    frameworks: Iterable[str] | None = None,
    variants: Iterable[str] | None = None,
    seq_lens: Iterable[int] | None = None,
    force: bool = False,
    check: Callable[[Cell], None] = lambda cell: None,
) -> Plan:
    """List the cells of a suite on a device (cpu, cuda or cuda:N).

    `frameworks` selects from the suite's; `variants` (any notation) and `seq_lens` replace its
    axes, also in the plan's settings. With A/A twins (`measure.aa`) each cell of the baseline has a
    second one, `replica` 1. `force` also runs what is predicted not to fit into memory, whatever
    the suite says; `check` raises what a cell's task has against it. A selection without the
    baseline, or a suite that has none and names none, is noted: there will be no ratios. Raises
    UnknownNameError or NotationError for what cannot be read, and for a baseline that the suite
    names and does not measure.
    """
    settings = suite.settings(device_kind(device))
    measure = settings.measure.model_copy(update={"force": force or settings.measure.force})
    axes = settings.axes
    chosen = _choose_frameworks(suite, axes.framework, frameworks)
    names = _in_file(suite, axes.variant) if variants is None else _unique(map(canonical, variants))
    lengths = axes.seq_len if seq_lens is None else _lengths(seq_lens)
    if not (chosen and names and lengths):
        raise NotationError("nothing to run: an empty list of frameworks, variants or lengths")
    baseline, notes = _baseline(suite, settings, names, selected=variants is not None)
    twin_of = baseline if settings.measure.has_twins else None
    cells: dict[str, Cell] = {}
    skipped: dict[str, Skip] = {}
    models = settings.models or {"": settings.model}
    own_sizes = {label: _mixer_sizes(suite, model.mixers) for label, model in models.items()}
    for label, task, seq_len, batch, heads, dtype, form, mode, name, framework in itertools.product(
        models, axes.task, lengths, axes.batch, axes.heads or (None,), axes.dtype, axes.form,
        axes.mode, names, chosen,
    ):  # fmt: skip
        for compiled in axes.compile or (DEFAULT_COMPILE[framework],):
            model = models[label]
            cell = Cell(
                variant=name, framework=framework, task=task,
                options=settings.tasks.get(task, {}), mode=mode, seq_len=seq_len, batch=batch,
                model=model.spec(seq_len, heads, own_sizes[label].get(name)), dtype=dtype,
                device=device, form=form, compile=compiled, seed=settings.measure.seed,
                label=label,
            )  # fmt: skip
            reason = why_impossible(cell, check)
            if reason is not None:
                skipped[cell.id] = Skip(cell, reason)
                continue
            cells[cell.id] = cell
            if name == twin_of:
                twin = Cell.model_validate(cell.model_dump() | {"replica": 1})
                cells[twin.id] = twin
    return Plan(
        suite=suite.name,
        source=suite.source,
        device=device,
        settings=settings.model_copy(
            update={
                "measure": measure,
                "axes": axes.model_copy(
                    update={
                        "variant": names,
                        "framework": chosen,
                        "seq_len": lengths,
                    }
                ),
            }
        ),
        cells=tuple(cells.values()),
        skipped=tuple(skipped.values()),
        notes=notes,
    )


def why_impossible(cell: Cell, check: Callable[[Cell], None]) -> str | None:
    """The reason why a cell cannot exist; None where it can. `check` is that of its task."""
    if cell.framework == "jax" and cell.compile == "eager":
        return "jax is always compiled here: its eager mode dispatches each operation on its own"
    try:
        model_of(cell)
        check(cell)
    except (ShapeError, UnsupportedError, NotationError) as error:
        return str(error)
    return None


def device_kind(device: str) -> str:
    """`cpu` or `cuda` for cpu, cuda or cuda:N; NotationError for anything else."""
    match = re.fullmatch(r"(cpu|cuda)|(cuda):\d+", device)
    if match is None:
        raise NotationError(f"device {device!r} not known; use auto, cpu, cuda or cuda:N")
    return match[1] or match[2]


def _choose_frameworks(
    suite: Suite, own: Sequence[Framework], wanted: Iterable[str] | None
) -> tuple[Framework, ...]:
    if wanted is None:
        return tuple(dict.fromkeys(own))
    chosen: list[Framework] = []
    for name in wanted:
        found = next((framework for framework in FRAMEWORKS if framework == name), None)
        if found is None:
            raise UnknownNameError("framework", name, FRAMEWORKS)
        if found not in own:
            raise NotationError(
                f"suite {suite.name} has no cells for {name}; its axes.framework is "
                f"{', '.join(own)} ({suite.source})"
            )
        chosen.append(found)
    return tuple(dict.fromkeys(chosen))


def _in_file(suite: Suite, variants: Sequence[str]) -> tuple[str, ...]:
    names: list[str] = []
    for position, variant in enumerate(variants):
        try:
            names.append(canonical(variant))
        except (NotationError, UnknownNameError, ShapeError) as error:
            raise NotationError(f"{suite.source}: axes.variant.{position}: {error}") from error
    return _unique(names)


def _mixer_sizes(suite: Suite, sizes: Mapping[str, MixerSizes]) -> dict[str, MixerSizes]:
    """The sizes by canonical notation."""
    found: dict[str, MixerSizes] = {}
    for variant, own in sizes.items():
        try:
            found[canonical(variant)] = own
        except (NotationError, UnknownNameError, ShapeError) as error:
            raise NotationError(f"{suite.source}: model.mixers.{variant}: {error}") from error
    return found


def _baseline(
    suite: Suite, settings: Settings, names: Sequence[str], selected: bool
) -> tuple[str, tuple[str, ...]]:
    """The baseline in canonical notation, and what is to be said of its absence from `names`."""
    try:
        baseline = canonical(settings.baseline)
    except (NotationError, UnknownNameError, ShapeError) as error:
        raise NotationError(f"{suite.source}: baseline: {error}") from error
    if baseline in names:
        return baseline, ()
    measured = shorten_list(names)
    if selected:
        return baseline, (
            f"no ratios: the baseline {baseline} is not among the variants selected ({measured}); "
            f"add it to them",
        )
    if "baseline" in settings.model_fields_set:
        raise NotationError(
            f"{suite.source}: baseline: {baseline} is not among axes.variant ({measured}); "
            "add it there, or name one of them"
        )
    return baseline, (
        f"no ratios: {suite.source} names no baseline, and {baseline} is not among its variants; "
        "write baseline: with one of them",
    )


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _lengths(seq_lens: Iterable[int]) -> tuple[int, ...]:
    lengths = tuple(dict.fromkeys(seq_lens))
    for length in lengths:
        if length < 1:
            raise NotationError(f"length {length} is not possible; use lengths of 1 or more")
    return lengths
