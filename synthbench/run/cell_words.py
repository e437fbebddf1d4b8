"""A cell in a few words, as progress and notes name it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from synthbench.suites.cell import Cell
from synthbench.tasks.cost import Cost

# Named where they vary among the cells of a framework, which would otherwise be named alike.
AXES = {
    "label": "{}", "batch": "B={}", "dtype": "{}", "form": "{} form", "compile": "{}",
    "devices": "devices={}",
}  # fmt: skip


def varying(cells: Iterable[Cell]) -> tuple[str, ...]:
    """The fields of AXES that have several values among the cells of one framework."""
    found: dict[tuple[str, str], set[object]] = {}
    for cell in cells:
        for name in AXES:
            found.setdefault((name, cell.framework), set()).add(getattr(cell, name))
    several = {name for (name, _), values in found.items() if len(values) > 1}
    return tuple(name for name in AXES if name in several)


def describe(cell: Cell, also: Collection[str] = ()) -> str:
    """A cell in a few words; `also` names fields of AXES."""
    twin = " (A/A twin)" if cell.replica else ""
    what = cell.mode if cell.task == Cost.name else f"{cell.task} {cell.mode} seed={cell.seed}"
    words = [AXES[name].format(value) for name in also if (value := getattr(cell, name)) != ""]
    return " ".join([f"{cell.framework} {cell.variant}{twin} {what} L={cell.seq_len}", *words])
