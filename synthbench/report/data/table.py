"""A table before it is rendered: title, note, and values in named columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from synthbench.metrics import Metric
from synthbench.printable import each_distinct, one_line
from synthbench.report.data.metrics import metric_named

if TYPE_CHECKING:
    import pandas as pd

MARK = "*"  # after a number that was measured with a warning

Value = float | int | str  # a number in the frame's unit, or why it is missing


class Marked(float):
    """A number that was measured with a warning."""


@dataclass(frozen=True)
class Column:
    """One column; its `metric` decides how numbers are printed, None is for text.

    If a wide table is split on a terminal, key columns are repeated in each part, and columns of
    one `group` stay together under one heading.
    """

    label: str
    metric: str | None = None
    group: str = ""
    is_key: bool = False

    @property
    def name(self) -> str:
        """The full heading, as in CSV and Markdown."""
        return f"{self.group} {self.label}".strip()

    @cached_property
    def declared(self) -> Metric | None:
        """Its metric; None for text."""
        return None if self.metric is None else metric_named(self.metric)


def metric_column(metric: str, group: str = "", *, is_key: bool = False) -> Column:
    """A column with the label of its metric."""
    return Column(metric_named(metric).label, metric, group, is_key)


@dataclass(frozen=True)
class Table:
    """A table of a run; `note` explains it, `context` is common to all tables of the run."""

    name: str
    title: str
    note: str
    context: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: list[tuple[Value, ...]] = field(default_factory=list)

    @property
    def frame(self) -> pd.DataFrame:
        """The values by full heading; numbers are scaled to the unit of the metric."""
        import pandas as pd

        scaled = [tuple(map(scaled_value, self.columns, row)) for row in self.rows]
        return pd.DataFrame(scaled, columns=[c.name for c in self.columns], dtype=object)

    @property
    def shown(self) -> list[list[str]]:
        """The values of every row as shown to people, each on one line."""
        return [list(row) for row in zip(*self.shown_columns, strict=True)]

    @cached_property
    def shown_columns(self) -> list[Sequence[str]]:
        """`shown` by column."""
        return [
            each_distinct(one_line, list(map(reader(column), values)))
            for column, values in zip(self.columns, self.values, strict=True)
        ]

    @property
    def values(self) -> list[tuple[Value, ...]]:
        """The values by column."""
        return list(zip(*self.rows, strict=True)) or [()] * len(self.columns)

    @property
    def keys(self) -> list[int]:
        """Positions of the key columns."""
        return [i for i, column in enumerate(self.columns) if column.is_key]


def scaled_value(column: Column, value: Value) -> Value:
    """A number in the unit of its column; a text unchanged."""
    if isinstance(value, str) or column.declared is None:
        return value
    scale = column.declared.scale
    return value if scale == 1 else value * scale


def for_reading(column: Column, value: Value) -> str:
    """A value as shown to people."""
    return reader(column)(value)


def reader(column: Column) -> Callable[[Value], str]:
    """The function that shows a value of a column to people."""
    declared = column.declared
    scale: float = 1 if declared is None else declared.scale
    form: Callable[[float], str] = str if declared is None else declared.format

    def read(value: Value) -> str:
        if isinstance(value, str):
            return value
        scaled = value if scale == 1 else value * scale
        if not math.isfinite(scaled):
            return "not finite"
        return form(scaled) + MARK if isinstance(value, Marked) else form(scaled)

    return read


def for_machines(column: Column, value: Value) -> str:
    """A value as written to CSV: integers in full, others with nine significant digits."""
    return writer(column)(value)


def writer(column: Column) -> Callable[[Value], str]:
    """The function that writes a value of a column to CSV."""
    scale: float = 1 if column.declared is None else column.declared.scale

    def write(value: Value) -> str:
        if isinstance(value, str):
            return value
        scaled = value if scale == 1 else value * scale
        return f"{scaled:.9g}" if isinstance(scaled, float) else str(scaled)

    return write
