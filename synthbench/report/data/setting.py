"""The setting of a cell: fields in which cells differ, and for which tables have no column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from synthbench.suites.cell import FLAT_FIELDS, MODEL_FIELDS, Cell

# The fields that a table shows in its rows and columns. Any other field in which cells differ
# becomes part of their setting.
_SHOWN = ("variant", "framework", "mode", "seq_len", "replica")
_BY_FRAMEWORK = ("compile",)  # may differ between frameworks without being a setting
_BY_LENGTH = ("max_len",)  # may differ between lengths without being a setting
_BY_VARIANT = ("heads", "head_dim")  # may differ between variants without being a setting


def differing_fields(cells: Iterable[Cell]) -> list[str]:
    """Fields in which cells differ, other than those that tables show.

    Frameworks may differ in `compile`; tables that compare them say so. Tasks may differ in
    anything: the task itself is then a field of the setting. A field counts even if the run is
    unfinished and no two cells differ in this field alone: an eager cell of one variant must not be
    compared with a compiled cell of another, nor float32 in torch with bfloat16 in jax.
    """
    fields = [name for name in FLAT_FIELDS if name not in _SHOWN]
    contents = [(cell, cell.content) for cell in cells]
    several = [name for name in fields if len(_distinct([c[name] for _, c in contents])) > 1]
    values: dict[tuple[Any, ...], set[Any]] = {}
    for cell, content in contents:
        for name in several:
            framework = cell.framework if name in _BY_FRAMEWORK else None
            length = cell.seq_len if name in _BY_LENGTH else None
            variant = cell.variant if name in _BY_VARIANT else None
            label = cell.label if name in MODEL_FIELDS else None
            task = cell.task if name != "task" else None
            group = (name, framework, length, variant, label, task)
            values.setdefault(group, set()).add(hashable(content[name]))
    differing = {name for (name, *_), found in values.items() if len(found) > 1}
    return [name for name in fields if name in differing]


def _distinct(values: Sequence[Any]) -> set[Any]:
    try:
        return set(values)
    except TypeError:
        return set(map(hashable, values))


def setting_of(cell: Cell, fields: Sequence[str], others: Mapping[str, str] = {}) -> str:
    """These fields of a cell as a text; empty without fields. `others`: those that no cell has."""
    if not fields:
        return ""
    content = cell.content
    return " ".join(f"{n}={others[n] if n in others else content[n]}" for n in fields)


def hashable(value: Any) -> Any:
    """A value of a field as what a set can hold."""
    return str(value) if isinstance(value, dict) else value
