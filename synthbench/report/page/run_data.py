"""A run as its page needs it: the grids, the context, the tables and where their numbers are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.prepared import Prepared, prepare
from synthbench.report.data.table import Table, Value
from synthbench.report.page.locate import cell_ids
from synthbench.report.tables.catalog import tables_from
from synthbench.store import Run


@dataclass(frozen=True)
class Ratio:
    """The values of the table `ratios` for one cell: numbers, or why they are missing."""

    ratio: Value
    low: Value
    high: Value
    verdict: Value


NO_RATIO = Ratio("", "", "", "")


@dataclass(frozen=True)
class RunData:
    """A run, and what is derived from it once."""

    run: Run

    @cached_property
    def prepared(self) -> Prepared:
        """The run laid out, with its verdicts."""
        return prepare(self.run)

    @property
    def grid(self) -> Grid:
        """All cells."""
        return self.prepared.grid

    @property
    def cost_grid(self) -> Grid:
        """The cells of the task `cost`, whose lengths and settings its tables have."""
        return self.prepared.cost_grid

    @property
    def context(self) -> Context:
        """Baseline, noise floors and the lines that all tables share."""
        return self.prepared.context

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of the run."""
        return tables_from(self.prepared)

    def table(self, name: str) -> Table | None:
        """The table of this name; None if the run has none."""
        return next((table for table in self.tables if table.name == name), None)

    @cached_property
    def ratios(self) -> dict[str, Ratio]:
        """Cell id -> ratio, interval and verdict, as in the table `ratios`."""
        table = self.table("ratios")
        found: dict[str, Ratio] = {}
        if table is None:
            return found
        width = 4  # columns per length
        first = len(table.keys)
        for row in table.rows:
            ids = cell_ids(self.cost_grid, table, row)
            for at in range(first, len(row), width):
                cell_id = ids[at]
                if cell_id is not None:
                    found[cell_id] = Ratio(*row[at : at + width])
        return found
