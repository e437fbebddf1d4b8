"""What is selected from a suite: frameworks, variants, lengths, and the baseline among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from synthbench.devices import device_kind
from synthbench.errors import NotationError, ShapeError, UnknownNameError
from synthbench.mixers.notation import canonical
from synthbench.mixers.validation import shorten_list
from synthbench.models.spec import LARGEST_SIZE
from synthbench.suites.cell import Framework, Mode
from synthbench.suites.expansion import expand
from synthbench.suites.measure import Measure
from synthbench.suites.settings import MixerSizes, Settings
from synthbench.suites.suite import Suite

FRAMEWORKS: tuple[Framework, ...] = get_args(Framework)
MODES: tuple[Mode, ...] = get_args(Mode)


def choose_frameworks(
    suite: Suite, own: Sequence[Framework], wanted: Iterable[str] | None
) -> tuple[Framework, ...]:
    """The frameworks of the suite that are wanted; all where `wanted` is None."""
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


def with_data(suite: Suite, device: str, tasks: Iterable[str], data: str) -> Suite:
    """The suite with another data source for these tasks, on one kind of device.

    `data` is the name of a source, or the path of a file.
    """
    kind = device_kind(device).name
    settings = suite.settings(kind)
    source: Any = {"file": data} if "." in data or "/" in data else data
    replaced = {name: settings.tasks.get(name, {}) | {"data": source} for name in tasks}
    settings = settings.model_copy(update={"tasks": settings.tasks | replaced})
    return suite.model_copy(update={"devices": suite.devices | {kind: settings}})


def with_machines(suite: Suite, device: str, machines: int) -> Suite:
    """The suite with its rounds spread over so many machines, on one kind of device.

    Raises NotationError for more machines than rounds.
    """
    kind = device_kind(device).name
    settings = suite.settings(kind)
    content = settings.measure.model_dump() | {"machines": machines}
    try:
        measure = Measure.model_validate(content)
    except ValidationError as error:
        raise NotationError(
            f"--machines {machines}: give 1 to {settings.measure.least_rounds}, as each machine "
            f"measures at least one of the suite's {settings.measure.least_rounds} rounds "
            f"(measure.rounds in {suite.source})"
        ) from error
    settings = settings.model_copy(update={"measure": measure})
    return suite.model_copy(update={"devices": suite.devices | {kind: settings}})


def variants_of_file(suite: Suite, variants: Sequence[str]) -> list[str]:
    """The variants of a suite file in canonical notation, lists of options expanded."""
    names: list[str] = []
    for position, variant in enumerate(variants):
        try:
            names += map(canonical, expand(variant))
        except (NotationError, UnknownNameError, ShapeError) as error:
            raise NotationError(f"{suite.source}: axes.variant.{position}: {error}") from error
    return names


def notes_on_repeats(suite: Suite, axes: Mapping[str, Iterable[Any]]) -> tuple[str, ...]:
    """A note for each axis of a suite file that has a value more than once."""
    found: list[str] = []
    for name, values in axes.items():
        repeated = [str(value) for value, times in Counter(values).items() if times > 1]
        if repeated:
            found.append(
                f"{suite.source}: axes.{name} has {shorten_list(repeated)} more than once; each "
                "is measured once"
            )
    return tuple(found)


def sizes_of_mixers(source: str, sizes: Mapping[str, MixerSizes]) -> dict[str, MixerSizes]:
    """`model.mixers` by canonical notation; `source`: the file that has them."""
    found: dict[str, MixerSizes] = {}
    for variant, own in sizes.items():
        try:
            name = canonical(variant)
        except (NotationError, UnknownNameError, ShapeError) as error:
            raise NotationError(f"{source}: model.mixers.{variant}: {error}") from error
        if name in found:
            raise NotationError(
                f"{source}: model.mixers.{variant}: {name} has sizes there already, under another "
                "notation; give them once"
            )
        found[name] = own
    return found


def notes_on_sizes(suite: Suite, settings: Settings, names: Iterable[str]) -> tuple[str, ...]:
    """A note where `model.mixers` has sizes of variants that are not among `names`."""
    models = (settings.models or {"": settings.model}).values()
    sized = unique(name for model in models for name in sizes_of_mixers(suite.source, model.mixers))
    unused = [name for name in sized if name not in set(names)]
    if not unused:
        return ()
    return (
        f"{suite.source}: model.mixers has sizes of {shorten_list(unused)}, not among "
        "axes.variant; nothing is measured with them",
    )


def find_baseline(
    suite: Suite, settings: Settings, names: Sequence[str], selected: bool
) -> tuple[str, tuple[str, ...]]:
    """The baseline in canonical notation, and notes where it is not among `names`."""
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


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, in order."""
    return tuple(dict.fromkeys(names))


def replaced_axes(
    seq_lens: Iterable[int] | None,
    modes: Iterable[str] | None,
    batches: Iterable[int] | None,
) -> dict[str, tuple[Any, ...]]:
    """The axes of a suite that other values replace, by name; None: as the suite says.

    Raises UnknownNameError for a mode that does not exist, and NotationError for an empty list and
    a size below 1 or above LARGEST_SIZE.
    """
    replaced: dict[str, tuple[Any, ...]] = {}
    if seq_lens is not None:
        replaced["seq_len"] = _require_sizes("length", seq_lens)
    if modes is not None:
        replaced["mode"] = unique(modes)
        for name in replaced["mode"]:
            if name not in MODES:
                raise UnknownNameError("mode", name, MODES)
    if batches is not None:
        replaced["batch"] = _require_sizes("batch size", batches)
    if empty := [name for name, values in replaced.items() if not values]:
        raise NotationError(f"nothing to run: an empty list for the axis {empty[0]}")
    return replaced


def _require_sizes(what: str, sizes: Iterable[int]) -> tuple[int, ...]:
    found = tuple(dict.fromkeys(sizes))
    for size in found:
        if size < 1:
            raise NotationError(f"{what} {size} is too small; use 1 or more")
        if size > LARGEST_SIZE:
            raise NotationError(f"{what} {size} is too large; use at most {LARGEST_SIZE}")
    return found
