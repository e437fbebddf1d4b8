"""A run as its page needs it: the grids, the context, the tables and where their numbers are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from synthbench.report.data.context import Context, context_of, variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Table, Value
from synthbench.report.page.locate import cell_ids
from synthbench.report.tables.catalog import make_tables
from synthbench.store import Run
from synthbench.tasks.cost import Cost


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
    def grid(self) -> Grid:
        """All cells."""
        return Grid(self.run.records, variant_order(self.run.info))

    @cached_property
    def cost_grid(self) -> Grid:
        """The cells of the task `cost`, whose lengths and settings its tables have."""
        records = [r for r in self.run.records if r.cell.task == Cost.name]
        return Grid(records, variant_order(self.run.info))

    @cached_property
    def context(self) -> Context:
        """Baseline, noise floor and the lines that all tables share."""
        return context_of(self.run, self.grid)

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of the run."""
        return make_tables(self.run)

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
