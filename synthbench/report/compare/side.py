"""One of the runs that are compared, laid out by cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from synthbench.analysis.comparison import Judgement
from synthbench.analysis.two_runs import Sample
from synthbench.record import latest
from synthbench.report.data.context import named, variant_order
from synthbench.report.data.grid import Cost, Grid, Key
from synthbench.report.data.machines import kinds_of
from synthbench.report.data.noise import Noise, noise_of
from synthbench.report.data.verdicts import verdicts_of
from synthbench.store import Run
from synthbench.suites.cell import Cell
from synthbench.tasks import cost


@dataclass(frozen=True)
class Side:
    """A run and its letter, A for the first; only its cells of the task `cost` are compared.

    `in_seconds`: its times are medians in seconds, also where the machine's speed is known.
    """

    letter: str
    name: str
    run: Run
    in_seconds: bool = False

    @cached_property
    def grid(self) -> Grid:
        """The cells of the task `cost`."""
        records = [r for r in self.run.records if r.cell.task == cost.Cost.name]
        order, kinds = variant_order(self.run.info), kinds_of(self.run.info)
        return Grid(records, order, kinds, in_seconds=self.in_seconds)

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells of the task `cost`, each once."""
        return list({record.id: record.cell for record in self.grid.records}.values())

    @property
    def other_tasks(self) -> int:
        """How many cells are not compared because they do something else."""
        return len({record.id for record in self.run.records}) - len(self.cells)

    @cached_property
    def machines(self) -> dict[str, set[str]]:
        """Cell id -> the machines that measured it."""
        found: dict[str, set[str]] = {}
        for record in latest(self.grid.records):
            found.setdefault(record.id, set()).add(record.machine or self._machine)
        return found

    @cached_property
    def _machine(self) -> str:
        """That of records which name none; empty if it is not known."""
        known = [machine.id for machine in self.run.info.machines]
        return known[0] if len(known) == 1 else ""

    def sample(self, cell: Cell, cost: Cost) -> Sample | str:
        """The costs of a cell, with the machine of each; or why it has none."""
        found = self.grid.sample(self.key(cell), cost)
        if isinstance(found, str):
            return found
        return found._replace(machines=tuple([name or self._machine for name in found.machines]))

    @cached_property
    def kernels(self) -> dict[str, str]:
        """Cell id -> the kernels it used, over all rounds."""
        found: dict[str, dict[str, None]] = {}
        for record in latest(self.grid.records):
            for kernel in record.measurements.kernels:
                found.setdefault(record.id, {})[kernel] = None
        return {cell_id: ", ".join(kernels) for cell_id, kernels in found.items()}

    @property
    def baseline(self) -> str:
        """The variant with which this run compares the others."""
        return named(str(self.run.info.settings.get("baseline", "V")))

    @cached_property
    def noises(self) -> dict[Cost, Noise]:
        """The noise floors and the declared margin for time and for memory."""
        costs: tuple[Cost, ...] = ("seconds", "peak_bytes")
        return {cost: noise_of(self.grid, self.run.info, cost) for cost in costs}

    @cached_property
    def verdicts(self) -> dict[Key, Judgement]:
        """What the run concludes about each variant and its baseline: those of its tables."""
        found = verdicts_of(self.grid, self.baseline, self.noises["seconds"])
        return {key: one for key, one in found.items() if isinstance(one, Judgement)}

    def key(self, cell: Cell) -> Key:
        """The position of a cell in this run."""
        return self.grid.key(cell)


def on_one_scale(sides: Sequence[Side]) -> list[Side]:
    """The sides with times that can be compared.

    Relative to the product between the steps where all of them have it, else medians in seconds: a
    relative time is not a median.
    """
    timed = [side for side in sides if side.cells]
    if len({bool(side.grid.units) for side in timed}) < 2:
        return list(sides)
    return [replace(side, in_seconds=True) for side in sides]
