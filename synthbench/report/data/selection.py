"""Which rows of a run are printed; what is measured, judged and written does not depend on it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from synthbench.errors import NotationError, UnknownNameError
from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.context import named
from synthbench.report.data.grid import TWIN, Grid
from synthbench.report.data.metrics import better_in_row
from synthbench.report.data.table import Column, Table, Value

_LENGTH = re.compile(r"L=(\d+)\b")  # how the heading of a column for one length begins


@dataclass(frozen=True)
class Selection:
    """The rows to print, by their keys; an empty part chooses all."""

    variants: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        grid: Grid,
        *,
        variants: Sequence[str] = (),
        frameworks: Sequence[str] = (),
        modes: Sequence[str] = (),
        lengths: Sequence[int] = (),
    ) -> Selection:
        """A selection from a run.

        Raises UnknownNameError or NotationError for what the run does not have.
        """
        in_run = [name for setting in grid.settings() for name in grid.variants(setting)]
        chosen = cls(tuple(map(named, variants)), tuple(frameworks), tuple(modes), tuple(lengths))
        for kind, names, known in (
            ("variant", chosen.variants, in_run),
            ("framework", chosen.frameworks, grid.frameworks()),
            ("mode", chosen.modes, grid.modes()),
        ):
            for name in names:
                if name not in known:
                    raise UnknownNameError(f"{kind} of this run", name, dict.fromkeys(known))
        for length in chosen.lengths:
            if length not in grid.lengths():
                present = ", ".join(map(str, grid.lengths())) or "none"
                raise NotationError(f"length {length} is not in this run; it has {present}")
        return chosen

    def has(self, *, variant: str = "", framework: str = "", mode: str = "") -> bool:
        """Whether a variant, framework or mode is chosen; an empty name is not asked about."""
        return (
            (not variant or not self.variants or variant in self.variants)
            and (not framework or not self.frameworks or framework in self.frameworks)
            and (not mode or not self.modes or mode in self.modes)
        )

    def has_length(self, length: int) -> bool:
        """Whether a length is chosen."""
        return not self.lengths or length in self.lengths

    def of_table(self, table: Table) -> Table:
        """The chosen rows, and without the columns of other frameworks and lengths."""
        kept = [at for at, column in enumerate(table.columns) if self._has_column(column)]
        rows = [tuple(row[at] for at in kept) for row in table.rows if self._has_row(table, row)]
        columns = tuple(table.columns[at] for at in kept)
        return dataclasses.replace(table, columns=columns, rows=rows)

    def ignored_by(self, table: Table) -> list[str]:
        """What is chosen that a table has no rows or columns of: "variant", "framework", ...

        All of its rows and columns are then shown.
        """
        known = {table.columns[at].label for at in table.keys}
        known |= {"framework" for column in table.columns if column.group in FRAMEWORKS}
        known |= {"length" for column in table.columns if _LENGTH.match(column.name)}
        chosen = {
            "variant": self.variants, "framework": self.frameworks, "mode": self.modes,
            "length": self.lengths,
        }  # fmt: skip
        known |= {"length"} if "L" in known else set()
        return [kind for kind, names in chosen.items() if names and kind not in known]

    def _has_column(self, column: Column) -> bool:
        if column.group in FRAMEWORKS and not self.has(framework=column.group):
            return False
        length = _LENGTH.match(column.name)
        return length is None or self.has_length(int(length[1]))

    def _has_row(self, table: Table, row: Sequence[Value]) -> bool:
        keys = {table.columns[at].label: row[at] for at in table.keys}
        length = str(keys.get("length", keys.get("L", "")))
        return self.has(
            variant=str(keys.get("variant", "")).removesuffix(f" {TWIN}"),
            framework=str(keys.get("framework", "")),
            mode=str(keys.get("mode", "")),
        ) and (not length.isdecimal() or self.has_length(int(length)))


def sorted_tables(tables: Sequence[Table], heading: str) -> list[Table]:
    """The tables that have this column, sorted by it; the others as they are.

    The better numbers come first, words in place of numbers last, texts in alphabetical order. Rows
    of trainings stay together by task and metric, which says what is better.
    Raises UnknownNameError if no table has the column.
    """
    known = dict.fromkeys(column.name for table in tables for column in table.columns)
    if heading not in known:
        raise UnknownNameError("column", heading, known)
    return [_sorted(table, heading) for table in tables]


def _sorted(table: Table, heading: str) -> Table:
    names = [column.name for column in table.columns]
    if heading not in names:
        return table
    at = names.index(heading)
    metric = table.columns[at].declared
    keys = {column.label: place for place, column in enumerate(table.columns) if column.is_key}
    parts: dict[tuple[str, str], int] = {}  # the order of tasks and their metrics in the table

    def rank(row: Sequence[Value]) -> tuple[int, bool, float, str]:
        task, label = (str(row[keys[name]]) if name in keys else "" for name in ("task", "metric"))
        part, value = parts.setdefault((task, label), len(parts)), row[at]
        if isinstance(value, str) or not math.isfinite(value):
            return (part, True, 0.0, str(value))
        better = "neither" if metric is None else better_in_row(metric, task, label)
        return (part, False, -value if better == "higher" else value, "")

    return dataclasses.replace(table, rows=sorted(table.rows, key=rank))
