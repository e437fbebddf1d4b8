"""Our measurements for one table of the paper: the newest run of the suite with its name."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from synthbench.devices import is_host
from synthbench.errors import ResultsError
from synthbench.mixers.notation import canonical
from synthbench.report.data.context import variant_order
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Value
from synthbench.report.paper.trained import Trainings
from synthbench.store import Run, list_runs, read_info, read_run
from synthbench.suites.cell import Cell
from synthbench.suites.pairing import OF_VARIANT
from synthbench.tasks.cost import Cost

NO_RUN = "no run"
NO_SHARED_SETTING = "no shared setting"


@dataclass(frozen=True)
class Measured:
    """The finished run of a suite that measured costs; `run` is None if there is none."""

    suite: str
    run: Run | None
    trainings: Trainings = field(default_factory=lambda: Trainings(()))

    @classmethod
    def find(cls, suite: str, results: Path, trainings: Trainings | None = None) -> Measured:
        """The newest finished run of a suite that can be read; runs on a GPU are preferred."""
        trainings = trainings or Trainings(())
        found: list[tuple[bool, str, Path]] = []
        for folder in list_runs(results / suite):
            with contextlib.suppress(ResultsError):  # other runs may still be readable
                info = read_info(folder)
                if info.suite == suite and info.finished is not None:
                    found.append((not is_host(info.device), info.started, folder))
        for _, _, folder in sorted(found, reverse=True):
            with contextlib.suppress(ResultsError):
                run = read_run(folder)
                if any(record.cell.task == Cost.name for record in run.records):
                    return cls(suite, run, trainings)
        return cls(suite, None, trainings)

    @cached_property
    def grid(self) -> Grid:
        """The records of the run."""
        if self.run is None:
            return Grid((), ())
        return Grid(self.run.records, variant_order(self.run.info))

    @cached_property
    def _cells(self) -> dict[tuple[str, str, str, int | None], Cell]:
        """(framework, variant, label, heads or None) -> the cell that stands for it.

        A train step if possible, the longest; of several data types, batches or the like, that of
        the first value in the suite, which is the same for every variant.
        """
        found: dict[tuple[str, str, str, int | None], Cell] = {}
        records = () if self.run is None else self.run.records
        cells = {record.id: record.cell for record in records}
        for cell in sorted(cells.values(), key=self._place):
            if cell.replica == 0 and cell.task == Cost.name:
                for heads in (cell.model.heads, None):
                    found.setdefault((cell.framework, cell.variant, cell.label, heads), cell)
        return found

    def _place(self, cell: Cell) -> tuple[bool, int, list[tuple[int, str]]]:
        """Of cells of one variant, that with the least place stands for it."""
        axes = {} if self.run is None else self.run.info.settings.get("axes", {})
        listed = {name: own for name, own in axes.items() if isinstance(own, list)}
        of_fields = []
        for name, value in cell.content.items():
            values = listed.get(name, [])
            place = values.index(value) if value in values else len(values)
            of_fields.append((place, str(value)))
        return cell.mode != "train", -cell.seq_len, of_fields

    def cell(
        self, framework: str, variant: str, label: str = "", heads: int | None = None
    ) -> Cell | None:
        """The cell of a variant (any notation) in a framework."""
        return self._cells.get((framework, canonical(variant), label, heads))

    def value(self, cell: Cell | None, column: str) -> Value:
        """A number of a cell, or why it is missing."""
        return NO_RUN if cell is None else self.grid.known(self.key(cell), column)

    def ratio(self, cell: Cell | None, baseline: Cell | None) -> Value:
        """Steps per second of a cell over those of another, which differs in its mixer alone."""
        if cell is None or baseline is None:
            return NO_RUN
        if _all_but_mixer(cell) != _all_but_mixer(baseline):
            return NO_SHARED_SETTING
        return self.grid.speed_ratio(self.key(cell), self.key(baseline), baseline.variant)

    def key(self, cell: Cell) -> Key:
        """The position of a cell in the grid."""
        return self.grid.key(cell)

    @property
    def described(self) -> str:
        """Which runs our numbers come from, and their sizes."""
        return f"{self._costs} {self.trainings.described}".rstrip()

    @property
    def _costs(self) -> str:
        if self.run is None:
            return f"Our numbers: no finished run of suite {self.suite} yet."
        cells = list(self._cells.values())

        def sizes(name: str) -> str:
            return " or ".join(dict.fromkeys(str(cell.flat()[name]) for cell in cells))

        has_target = all(cell.model.target_len for cell in cells)
        target = f", target length {sizes('target_len')}" if has_target else ""
        return (
            f"Our numbers: run `{self.run.full_path.name}` of suite {self.suite} on "
            f"{self.run.info.device}, batch {sizes('batch')}, length {sizes('seq_len')}{target}, "
            f"{sizes('dtype')}."
        )


def _all_but_mixer(cell: Cell) -> dict[str, Any]:
    return {name: value for name, value in cell.content.items() if name not in OF_VARIANT}
