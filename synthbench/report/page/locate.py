"""Which cell of a run stands behind each number of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from synthbench.report.data.cell_layout import FRAMEWORKS, MODES
from synthbench.report.data.grid import TWIN, Grid, Key
from synthbench.report.data.table import Column, Table, Value

AT_LONGEST = (*MODES, "memory_parts", "phases")  # tables at the longest length of each setting
_LENGTH = re.compile(r"L=(\d+)")


class Place(NamedTuple):
    """What a row or a column of a table says of its cells; None: nothing."""

    setting: str | None = None
    variant: str | None = None
    framework: str | None = None
    mode: str | None = None
    seq_len: int | None = None
    replica: int | None = None

    def within(self, other: Place) -> Place:
        """What both say; this one first."""
        return other._replace(**{k: v for k, v in self._asdict().items() if v is not None})


def place_of_row(table: Table, row: Sequence[Value]) -> Place:
    """What the key columns of a row say."""
    keys = {table.columns[at].label: row[at] for at in table.keys}
    texts = {name: str(value) for name, value in keys.items()}
    variant, length = texts.get("variant"), texts.get("length", texts.get("L", ""))
    twin = variant is not None and variant.endswith(f" {TWIN}")
    return Place(
        texts.get("setting"),
        None if variant is None else variant.removesuffix(f" {TWIN}"),
        texts.get("framework"),
        texts.get("mode", table.name if table.name in MODES else None),
        int(length) if length.isdecimal() else None,
        int(twin),
    )


def place_of_column(column: Column) -> Place:
    """What the heading of a column says."""
    length = _LENGTH.fullmatch(column.group or column.label)
    return Place(
        framework=column.group if column.group in FRAMEWORKS else None,
        seq_len=int(length[1]) if length else None,
    )


def cell_ids(grid: Grid, table: Table, row: Sequence[Value]) -> list[str | None]:
    """The cell of each value of a row; None for a key, and where there is not exactly one cell."""
    of_row = place_of_row(table, row)
    return [
        None
        if column.is_key
        else _cell_id(grid, place_of_column(column).within(of_row), table.name in AT_LONGEST)
        for column in table.columns
    ]


def _cell_id(grid: Grid, place: Place, at_longest: bool) -> str | None:
    setting = place.setting or ""
    length: Any = place.seq_len
    if length is None and at_longest and setting in grid.settings():
        length = grid.longest(setting)
    if length is None or None in (place.variant, place.framework, place.mode):
        return None
    key = (setting, place.variant, place.framework, place.mode, length, place.replica or 0)
    return grid.ids.get(Key(*key))  # type: ignore[arg-type]  # not None, as checked
