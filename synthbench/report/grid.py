"""A run's cells laid out for tables: looked up by setting, variant, framework, mode and length."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from synthbench.record import Record
from synthbench.report.frame import pool_rounds, record_frame
from synthbench.report.table import Marked, Value
from synthbench.suites.cell import Cell

FRAMEWORKS = ("torch", "jax")
MODES = ("forward", "train")
NOT_RUN = "not run"  # the cell belongs to the run, and no record of it is there
NOT_MEASURED = "not measured"  # the cell is ok, but this number could not be taken
NO_CELL = "no cell"  # the run has no such cell

# What a table's rows and columns already say; any other field of a cell may be an axis of the
# suite, and then tells the rows of a table apart.
_SHOWN = ("variant", "framework", "mode", "seq_len")
_BY_LENGTH = ("max_len",)  # a field that may follow the length, and then tells nothing more
_TIMES = ("steps_per_second", "median_seconds")  # what is marked where something disturbed it


class Key(NamedTuple):
    """The place of a cell: `setting` is "" unless cells differ in more than the four others."""

    setting: str
    variant: str
    framework: str
    mode: str
    seq_len: int


@dataclass(frozen=True)
class Grid:
    """The records of one run; variants stand in `variant_order`, others after them by name."""

    records: Sequence[Record]
    variant_order: Sequence[str]

    @cached_property
    def _cells(self) -> dict[str, Cell]:
        return {record.id: record.cell for record in self.records}

    @cached_property
    def setting_fields(self) -> list[str]:
        """Fields in which cells of one framework differ that no row or column tells apart.

        The frameworks may differ in `compile`, which tables that compare them say. Whether a
        cell of every combination is there does not matter: an unfinished run may have an eager
        cell of one variant and a compiled one of another, which are no more to be compared.
        """
        fields = [name for name in Cell.model_fields if name not in _SHOWN]
        values: dict[tuple[Any, ...], set[Any]] = {}
        for cell in self._cells.values():
            for name in fields:
                length = cell.seq_len if name in _BY_LENGTH else None
                place = (name, cell.framework, length)
                values.setdefault(place, set()).add(getattr(cell, name))
        differing = {name for (name, *_), found in values.items() if len(found) > 1}
        return [name for name in fields if name in differing]

    def key(self, cell: Cell) -> Key:
        """Where a cell stands."""
        setting = " ".join(f"{name}={getattr(cell, name)}" for name in self.setting_fields)
        return Key(setting, cell.variant, cell.framework, cell.mode, cell.seq_len)

    @cached_property
    def ids(self) -> dict[Key, str]:
        """The place of every recorded cell -> its id."""
        return {self.key(cell): cell_id for cell_id, cell in self._cells.items()}

    @cached_property
    def keys(self) -> dict[Key, None]:
        """The place of every cell of the run, recorded or not, in the order tables show them.

        Suites are products of axes: a combination that other records of its setting span, and
        that has no record itself, was not run yet.
        """
        return dict.fromkeys(
            Key(setting, variant, *pair, length)
            for setting in self.settings()
            for pair in self.pairs(setting)
            for variant in self.variants(setting)
            for length in self.lengths(setting)
        )

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """One row a record."""
        return record_frame(self.records)

    @cached_property
    def _pooled(self) -> dict[str, dict[str, Any]]:
        rows = pool_rounds(self.rounds).to_dict("records")
        return {str(row["id"]): {str(name): row[name] for name in row} for row in rows}

    @cached_property
    def _medians(self) -> dict[str, dict[int, float]]:
        """Cell id -> round -> the median of that round, in seconds."""
        medians: dict[str, dict[int, float]] = {cell_id: {} for cell_id in self._cells}
        columns = zip(
            self.rounds["id"], self.rounds["round"], self.rounds["median_seconds"], strict=True
        )
        for cell_id, number, median in columns:
            if not pd.isna(median):
                medians[cell_id][int(number)] = float(median)
        return medians

    def cell(self, key: Key) -> dict[str, Any] | None:
        """The pooled row of a cell (as `pool_rounds` makes it), or None without a record."""
        return self._pooled.get(self.ids.get(key, ""))

    def missing(self, key: Key) -> str | None:
        """The word that stands for a cell without numbers; None where the cell is ok."""
        row = self.cell(key)
        if row is None:
            return NOT_RUN if key in self.keys else NO_CELL
        return None if row["outcome"] == "ok" else str(row["outcome"])

    def value(self, key: Key, column: str) -> Value:
        """A number of a cell, or the word that stands in its place."""
        if word := self.missing(key):
            return word
        number = self.known(key, column)
        if column in _TIMES and not isinstance(number, str):
            return Marked(number) if (self.cell(key) or {})["warnings"] else number
        return number

    def known(self, key: Key, column: str) -> Value:
        """A number even of a cell that is not ok, where it was taken before the cell failed."""
        row = self.cell(key)
        if row is None or pd.isna(row[column]):
            return self.missing(key) or NOT_MEASURED
        number: Value = row[column]
        return number

    def speed_ratio(self, key: Key, baseline: Key, baseline_name: str, name: str = "") -> Value:
        """How many times as many steps per second `key` makes as `baseline`.

        The ratio is taken within each round that measured both, and the median of the rounds is
        shown. Where one of the cells is not ok, its name (none for `key` itself, by default) and
        outcome stand in place of the ratio.
        """
        for cell, called in ((key, name), (baseline, "" if baseline == key else baseline_name)):
            if word := self.missing(cell):
                return f"{called} {word}".strip()
        own, other = self._medians[self.ids[key]], self._medians[self.ids[baseline]]
        ratios = [other[r] / own[r] for r in own if r in other and own[r] > 0]
        return float(np.median(ratios)) if ratios else "no shared round"

    def settings(self) -> list[str]:
        """Each combination of the setting fields."""
        settings = {key.setting for key in self.ids}
        return sorted(settings, key=lambda text: [  # batch=4 before batch=16
            (part.isdigit(), int(part) if part.isdigit() else 0, part)
            for part in re.split(r"(\d+)", text)
        ])  # fmt: skip

    def variants(self, setting: str) -> list[str]:
        """The variants, in the order of the suite."""
        present = {key.variant for key in self.ids if key.setting == setting}
        known = [variant for variant in self.variant_order if variant in present]
        return known + sorted(present.difference(known))

    def pairs(self, setting: str | None = None) -> list[tuple[str, str]]:
        """Pairs of framework and mode; of all settings where none is given."""
        present = {(key.framework, key.mode) for key in self._of(setting)}
        return [(f, mode) for f in FRAMEWORKS for mode in MODES if (f, mode) in present]

    def frameworks(self, setting: str | None = None) -> list[str]:
        """The frameworks; of all settings where none is given."""
        return list(dict.fromkeys(framework for framework, _ in self.pairs(setting)))

    def modes(self, setting: str | None = None) -> list[str]:
        """The modes; of all settings where none is given."""
        present = {mode for _, mode in self.pairs(setting)}
        return [mode for mode in MODES if mode in present]

    def lengths(self, setting: str | None = None) -> list[int]:
        """The lengths, ascending; of all settings where none is given."""
        return sorted({key.seq_len for key in self._of(setting)})

    def longest(self, setting: str) -> int:
        """The longest length of a setting."""
        return self.lengths(setting)[-1]

    def _of(self, setting: str | None) -> list[Key]:
        return [key for key in self.ids if setting in (None, key.setting)]
