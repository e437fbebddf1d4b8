"""What `synthbench run --dry-run` prints: the cells of a plan, what is skipped, and the time."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from synthbench.run.progress import duration

if TYPE_CHECKING:
    from synthbench.run.estimate import Estimate
    from synthbench.suites.cell import Cell
    from synthbench.suites.plan import Plan

# What a group of cells is headed by or lists; other fields are shown where cells differ in them.
SHOWN = ("variant", "framework", "mode", "dtype", "label", "seq_len", "replica", "device", "seed")


def dry_run_lines(plan: Plan, estimate: Estimate, width: int) -> Iterator[str]:
    """The lines for a plan, wrapped at a width."""
    rounds, machines = plan.settings.measure.least_rounds, plan.settings.measure.machines
    spread = f" spread over {machines} machines" if machines > 1 else ""
    yield (
        f"Suite {plan.suite} on {plan.device}: {_count(len(plan.cells), 'cell')} in "
        f"{_count(rounds, 'round')}{spread}, {_count(len(plan.cells) * rounds, 'measurement')}"
    )
    yield from (line for note in plan.notes for line in _wrapped(f"Note: {note}", width))
    others = [*_differing(plan.cells), *["device"] * (len(plan.devices) > 1)]
    groups: dict[str, list[Cell]] = {}
    for cell in plan.cells:
        groups.setdefault(_heading(cell, others), []).append(cell)
    for heading, cells in groups.items():
        yield ""
        yield f"{heading}: {_count(len(cells), 'cell')}"
        for lengths, variants in _by_lengths(cells).items():
            yield from _wrapped(f"variants  {', '.join(variants)}", width, 2, 10)
            yield from _wrapped(f"lengths   {', '.join(map(str, lengths))}", width, 2, 10)
    if plan.skipped:
        yield ""
        yield f"Skipped: {_count(len(plan.skipped), 'cell')}"
        reasons: dict[str, list[Cell]] = {}
        for skip in plan.skipped:
            reasons.setdefault(skip.reason, []).append(skip.cell)
        for reason, cells in reasons.items():
            yield from _wrapped(f"{_described(cells)}: {reason}", width, 2, 2)
    yield ""
    kernels = ""
    if seconds := plan.settings.measure.kernel_seconds:
        kernels = f" Kernels that no earlier run has chosen take up to {duration(seconds)} more."
    yield from _wrapped(f"Time: {_time(estimate)}. It rests on {estimate.basis}.{kernels}", width)
    yield "Nothing was measured, nothing was written."


def _heading(cell: Cell, others: Sequence[str]) -> str:
    content = cell.flat()
    parts = [cell.framework, cell.mode, cell.dtype, f"model {cell.label or cell.model.kind}"]
    return ", ".join([*parts, *(f"{name} {content[name]}" for name in others)])


def _differing(cells: Iterable[Cell]) -> list[str]:
    """The fields in which cells of one framework, model, variant and length differ."""
    values: dict[tuple[object, ...], set[str]] = {}
    for cell in cells:
        for name, value in cell.flat().items():
            place = (name, cell.framework, cell.label, cell.variant, cell.seq_len)
            values.setdefault(place, set()).add(str(value))
    differing = dict.fromkeys(name for (name, *_), found in values.items() if len(found) > 1)
    return [str(name) for name in differing if name not in SHOWN]


def _by_lengths(cells: Iterable[Cell]) -> dict[tuple[int, ...], list[str]]:
    """Lengths -> the variants that have cells of just these lengths."""
    lengths: dict[str, dict[int, None]] = {}
    for cell in cells:
        name = f"{cell.variant} (A/A twin)" if cell.replica else cell.variant
        lengths.setdefault(name, {})[cell.seq_len] = None
    found: dict[tuple[int, ...], list[str]] = {}
    for name, own in lengths.items():
        found.setdefault(tuple(own), []).append(name)
    return found


def _described(cells: Sequence[Cell]) -> str:
    """What cells have in common and what they differ in, in a few words."""
    fields = ("framework", "mode", "dtype", "variant")
    parts = [", ".join(dict.fromkeys(str(getattr(c, name)) for c in cells)) for name in fields]
    lengths = ", ".join(dict.fromkeys(str(cell.seq_len) for cell in cells))
    return f"{_count(len(cells), 'cell')} ({'; '.join(parts)}; lengths {lengths})"


def _time(estimate: Estimate) -> str:
    low, high = duration(estimate.low), duration(estimate.high)
    return f"about {low}" if low == high else f"{low} to {high}"


def _wrapped(text: str, width: int, indent: int = 0, hanging: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
