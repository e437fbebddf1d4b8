"""A run's cells laid out for tables: looked up by setting, variant, framework, mode and length."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from synthbench.analysis.comparison import Comparison
from synthbench.record import Record
from synthbench.report.data.frame import pool_rounds, record_frame
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Marked, Value
from synthbench.suites.cell import FLAT_FIELDS, MODEL_FIELDS, Cell

FRAMEWORKS = ("torch", "jax")
MODES = ("forward", "train")
NOT_RUN = "not run"  # the cell belongs to the run, and no record of it is there
NOT_MEASURED = "not measured"  # the cell is ok, but this number could not be taken
NO_CELL = "no cell"  # the run has no such cell

# What a table's rows and columns already say; any other field of a cell may be an axis of the
# suite, and then tells the rows of a table apart.
_SHOWN = ("variant", "framework", "mode", "seq_len", "replica")
_BY_LENGTH = ("max_len",)  # a field that may follow the length, and then tells nothing more
_BY_VARIANT = ("heads", "head_dim")  # may be a variant's own

NORMAL_95 = 1.959964  # half of a 95% interval, in standard errors

Cost = Literal["seconds", "peak_bytes"]


class Key(NamedTuple):
    """The place of a cell: `setting` is "" unless cells differ in more than the four others."""

    setting: str
    variant: str
    framework: str
    mode: str
    seq_len: int
    replica: int = 0  # 1: the A/A twin


class _Costs(NamedTuple):
    """What one round says of a cell; NaN where it was not measured."""

    seconds: float
    error: float  # standard error of the log of the seconds, from the samples of this round
    peak_bytes: float


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
        fields = [name for name in FLAT_FIELDS if name not in _SHOWN]
        values: dict[tuple[Any, ...], set[Any]] = {}
        for cell in self._cells.values():
            content = cell.flat()
            for name in fields:
                length = cell.seq_len if name in _BY_LENGTH else None
                variant = cell.variant if name in _BY_VARIANT else None
                label = cell.label if name in MODEL_FIELDS else None
                place = (name, cell.framework, length, variant, label)
                values.setdefault(place, set()).add(_hashable(content[name]))
        differing = {name for (name, *_), found in values.items() if len(found) > 1}
        return [name for name in fields if name in differing]

    def key(self, cell: Cell) -> Key:
        """Where a cell stands."""
        content = cell.flat() if self.setting_fields else {}
        setting = " ".join(f"{name}={content[name]}" for name in self.setting_fields)
        place = (cell.variant, cell.framework, cell.mode, cell.seq_len, cell.replica)
        return Key(setting, *place)

    @cached_property
    def ids(self) -> dict[Key, str]:
        """The place of every recorded cell -> its id."""
        return {self.key(cell): cell_id for cell_id, cell in self._cells.items()}

    @cached_property
    def keys(self) -> dict[Key, None]:
        """The place of every cell of the run, recorded or not, in the order tables show them.

        Suites are products of axes, with twins of the baseline or without: a combination that other
        records of its setting span, and that has no record itself, was not run yet.
        """
        twins = {(key.setting, key.variant, key.replica) for key in self.ids if key.replica}
        return dict.fromkeys(
            Key(setting, variant, *pair, length, replica)
            for setting in self.settings()
            for pair in self.pairs(setting)
            for variant in self.variants(setting)
            for length in self.lengths(setting)
            for replica in (0, 1)
            if replica == 0 or (setting, variant, replica) in twins
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
    def _by_round(self) -> dict[str, dict[int, _Costs]]:
        """Cell id -> round -> what a step cost in it."""
        found: dict[str, dict[int, _Costs]] = {cell_id: {} for cell_id in self._cells}
        names = ("id", "round", "median_seconds", "low_seconds", "high_seconds", "peak_bytes")
        for cell_id, number, *costs in zip(*(self.rounds[name] for name in names), strict=True):
            median, low, high, peak = (math.nan if pd.isna(c) else float(c) for c in costs)
            error = math.log(high / low) / (2 * NORMAL_95) if low > 0 else math.inf
            found[cell_id][int(number)] = _Costs(median, error, peak)
        return found

    def costs(self, key: Key, cost: Cost) -> list[float]:
        """Seconds or peak bytes of a step in each round that measured it; none without a record."""
        rounds = self._by_round.get(self.ids.get(key, ""), {})
        return [value for n in sorted(rounds) if (value := getattr(rounds[n], cost)) > 0]

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
        if isinstance(number, str) or not metric_named(column).timed:
            return number
        return Marked(number) if (self.cell(key) or {})["warnings"] else number

    def known(self, key: Key, column: str) -> Value:
        """A number even of a cell that is not ok, where it was taken before the cell failed."""
        row = self.cell(key)
        if row is None or pd.isna(row[column]):
            return self.missing(key) or NOT_MEASURED
        number: Value = row[column]
        return number

    def compare(
        self, key: Key, baseline: Key, baseline_name: str, name: str = "", cost: Cost = "seconds"
    ) -> Comparison | str:
        """What each round that measured both says of `key` against `baseline`.

        Where one of the cells is not ok, its name (none for `key` itself, by default) and outcome
        stand in place of the comparison.
        """
        for cell, called in ((key, name), (baseline, "" if baseline == key else baseline_name)):
            if word := self.missing(cell):
                return f"{called} {word}".strip()
        own, other = self._by_round[self.ids[key]], self._by_round[self.ids[baseline]]
        pairs = [
            (mine, theirs)
            for number in sorted(own.keys() & other.keys())
            if getattr(mine := own[number], cost) > 0 and getattr(theirs := other[number], cost) > 0
        ]
        if not pairs:
            return "no shared round"
        ratios = tuple(math.log(getattr(b, cost) / getattr(a, cost)) for a, b in pairs)
        squares = [a.error**2 + b.error**2 for a, b in pairs]
        within = math.sqrt(sum(squares) / len(squares)) if cost == "seconds" else 0.0
        return Comparison(ratios, within)

    def speed_ratio(self, key: Key, baseline: Key, baseline_name: str, name: str = "") -> Value:
        """How many times as many steps per second `key` makes as `baseline`.

        The ratio is taken within each round that measured both, and the geometric mean of the
        rounds is shown; or the word that `compare` gives.
        """
        found = self.compare(key, baseline, baseline_name, name)
        return found if isinstance(found, str) else math.exp(np.mean(found.log_ratios))

    def twins(self) -> list[Key]:
        """The A/A twins of the run."""
        return [key for key in self.keys if key.replica]

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


def _hashable(value: Any) -> Any:
    return str(value) if isinstance(value, dict) else value
