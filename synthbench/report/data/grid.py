"""A run's cells laid out for tables: looked up by setting, variant, framework, mode and length."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from synthbench.analysis.comparison import Comparison
from synthbench.analysis.moderated_variance import Moderated
from synthbench.analysis.two_runs import Sample
from synthbench.measure.disturbed import disturbances
from synthbench.record import Latest, Record, latest
from synthbench.report.data.columns import values_of
from synthbench.report.data.frame import ColumnRow, Row, Values, is_missing, pooled_frame
from synthbench.report.data.key import Key as Key
from synthbench.report.data.key import group_of as group_of
from synthbench.report.data.round_costs import ByRound, Paired, RoundNoise, costs_by_round
from synthbench.report.data.setting import differing_fields, hashable, setting_of
from synthbench.report.data.table import Marked, Value
from synthbench.suites.cell import COMPARED, Cell

FRAMEWORKS = ("torch", "jax")
MODES = ("decode", "forward", "train")  # the last that a run has is shown first
NOT_RUN = "not run"  # the cell belongs to the run and has no record yet
NOT_MEASURED = "not measured"  # the cell is ok, but this number could not be measured
NO_CELL = "no cell"  # the run has no such cell
TWIN = "(A/A twin)"  # after the name of the baseline, in rows of its twin

MACHINE = "machine"  # in place of a field: the kind of machine that measured, if there are several
MACHINES = "machines"  # in place of a field: how many machines measured, if that differs
PLACES = ("device", MACHINE, MACHINES)  # a run measures each cell in one place only

Cost = Literal["seconds", "peak_bytes"]


class Counter(NamedTuple):
    """A framework, and the metrics for which it had no counter: metric -> why."""

    framework: str
    missing: Mapping[str, str]


@dataclass(frozen=True)
class _Layout:
    """What the cells of one setting have, each in the order of tables."""

    variants: list[str]
    pairs: list[tuple[str, str]]
    lengths: list[int]

    @classmethod
    def of(cls, keys: Sequence[Key], variant_order: Sequence[str]) -> _Layout:
        """The layout of cells; variants in `variant_order` come first, others follow by name."""
        variants = {key.variant for key in keys}
        known = [variant for variant in variant_order if variant in variants]
        present = {(key.framework, key.mode) for key in keys}
        return cls(
            known + sorted(variants.difference(known)),
            [(f, mode) for f in FRAMEWORKS for mode in MODES if (f, mode) in present],
            sorted({key.seq_len for key in keys}),
        )


@dataclass(frozen=True, eq=False)
class Grid:
    """The records of one run; variants in `variant_order` come first, others follow by name."""

    records: Sequence[Record]
    variant_order: Sequence[str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Machine -> its kind, where several kinds measured (`kinds_of`): they are never pooled."""

    @cached_property
    def latest(self) -> Latest:
        """The records that count."""
        return latest(self.records)

    @cached_property
    def _cells(self) -> dict[str, Cell]:
        return {record.id: record.cell for record in self.records}

    @cached_property
    def setting_fields(self) -> list[str]:
        """Fields, other than those in `Key`, in which cells differ."""
        several: list[str] = []
        if len({record.machine for record in self.latest} - {""}) > 1:
            several += [MACHINE] if len({*self._kind_of_shard.values()}) > 1 else []
            several += [MACHINES] if len(self.machine_counts) > 1 else []
        return differing_fields(self._cells.values()) + several

    def key(self, cell: Cell) -> Key:
        """The position of a cell."""
        setting = self._setting(cell, self.setting_fields)
        return Key(setting, cell.variant, cell.framework, cell.mode, cell.seq_len, cell.replica)

    def _setting(self, cell: Cell, fields: Sequence[str]) -> str:
        others = {}
        if MACHINE in fields:
            others[MACHINE] = self._kind_of_shard.get(_shard(cell), "unknown")
        if MACHINES in fields:
            others[MACHINES] = str(len(self._machines_of_shard.get(_shard(cell), ())) or "unknown")
        return setting_of(cell, fields, others)

    @property
    def machine_counts(self) -> set[int]:
        """How many machines have measured the rounds of a shard, of all shards."""
        return {len(machines) for machines in self._machines_of_shard.values()}

    @cached_property
    def _machines_of_shard(self) -> dict[tuple[Any, ...], set[str]]:
        """The machines that measured each shard."""
        found: dict[tuple[Any, ...], set[str]] = {}
        for cell_id, machine in {(record.id, record.machine) for record in self.latest}:
            if machine:
                found.setdefault(_shard(self._cells[cell_id]), set()).add(machine)
        return found

    @cached_property
    def _kind_of_shard(self) -> dict[tuple[Any, ...], str]:
        """The kinds of machines that measured each shard; empty unless there are several kinds."""
        found = {
            shard: {self.kinds[machine] for machine in machines if machine in self.kinds}
            for shard, machines in self._machines_of_shard.items()
        }
        return {shard: " and ".join(sorted(kinds)) for shard, kinds in found.items() if kinds}

    def machine(self, key: Key) -> str:
        """The machine that measured a cell last; empty if that is not known."""
        return self._machines.get(self.ids.get(key, ""), "")

    @cached_property
    def _machines(self) -> dict[str, str]:
        return {record.id: record.machine for record in self.latest if record.machine}

    @cached_property
    def ids(self) -> dict[Key, str]:
        """The position of every recorded cell -> its id."""
        return {self.key(cell): cell_id for cell_id, cell in self._cells.items()}

    @cached_property
    def keys(self) -> dict[Key, None]:
        """The position of every cell of the run, recorded or not, in the order of the tables.

        A suite is a product of axes, with or without A/A twins of the baseline. A combination that
        has no record, while others of its setting do, was not run yet; unless another device or
        machine of the run has measured it.
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
            if setting in self._places(setting, pair, length)
        )

    def _places(self, setting: str, pair: tuple[str, str], length: int) -> Collection[str]:
        """The settings that differ from one in the place only, and have records of these cells.

        The setting itself where no place has any.
        """
        bases, found = self._settings_by_place
        return found.get((bases[setting], *pair, length)) or (setting,)

    @cached_property
    def _settings_by_place(self) -> tuple[dict[str, str], dict[tuple[Any, ...], set[str]]]:
        """Setting -> what it is without its place; that, with the cells -> the settings."""
        fields = [name for name in self.setting_fields if name not in PLACES]
        bases: dict[str, str] = {}
        found: dict[tuple[Any, ...], set[str]] = {}
        for key, cell_id in self.ids.items():
            base = bases.get(key.setting)
            if base is None:
                base = bases[key.setting] = self._setting(self._cells[cell_id], fields)
            place = (base, key.framework, key.mode, key.seq_len)
            found.setdefault(place, set()).add(key.setting)
        return bases, found

    @cached_property
    def _values(self) -> Values:
        return values_of(self.latest)

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        """Cell id -> where the columns have its rounds."""
        found: dict[str, list[int]] = {}
        for position, cell_id in enumerate(self._values.column("id")):
            found.setdefault(cell_id, []).append(position)
        return found

    @cached_property
    def _pooled(self) -> dict[str, list[Any]]:
        """The columns of the pooled rows."""
        pooled = pooled_frame(self._values, list(self._positions.values()))
        return {str(name): pooled[name].tolist() for name in pooled.columns}

    @cached_property
    def _row_of(self) -> dict[Key, int]:
        """Where `_pooled` has each recorded cell."""
        places = {cell_id: place for place, cell_id in enumerate(self._positions)}
        return {key: places[cell_id] for key, cell_id in self.ids.items()}

    def rounds_of(self, cell_id: str) -> list[Row]:
        """The row of each round of a cell."""
        return [self._values.row(position) for position in self._positions[cell_id]]

    def outcomes_of(self, cell_id: str) -> list[str]:
        """The outcome of each round of a cell."""
        return [self._outcomes[position] for position in self._positions[cell_id]]

    @cached_property
    def _outcomes(self) -> Sequence[str]:
        return self._values.column("outcome")

    def has(self, metric: str) -> bool:
        """Whether any record has a value of this metric."""
        if metric not in self._values.metrics:
            return False
        return any(not is_missing(value) for value in self._values.column(metric))

    def column(self, metric: str) -> list[Any]:
        """The values of a metric, or of a field of the cell, in every record."""
        return list(self._values.column(metric))

    @cached_property
    def counters(self) -> list[Counter]:
        """What the records that are ok say of missing counters, each distinct one once."""
        found: dict[tuple[Any, ...], Counter] = {}
        for record in self.records:
            if record.outcome == "ok" and (missing := record.missing):
                framework = record.cell.framework
                found.setdefault((framework, *missing.items()), Counter(framework, missing))
        return list(found.values())

    def texts(self, metric: str) -> set[tuple[str, str]]:
        """Framework and text, of every record that has a text of this metric."""
        pairs = zip(self._values.column("framework"), self._values.column(metric), strict=True)
        return {(framework, text) for framework, text in pairs if text is not None}

    @cached_property
    def _by_round(self) -> ByRound:
        """The costs of a step of each cell in each round, and where they were measured."""
        return costs_by_round(self._values, self.latest, self._cells)

    @cached_property
    def disturbances(self) -> dict[tuple[str, int], list[str]]:
        """Cell id and round -> what disturbed it, in the attempts that count."""
        return disturbances(self.latest)

    @cached_property
    def disturbed(self) -> set[tuple[str, int]]:
        """Cell id and round of what something disturbed."""
        return set(self.disturbances)

    @cached_property
    def disturbed_cells(self) -> set[str]:
        """The ids of cells with a disturbed round."""
        return {cell_id for cell_id, _ in self.disturbed}

    @cached_property
    def _noise(self) -> RoundNoise:
        """How much cells differ between rounds."""
        return RoundNoise(self.ids, self._by_round, self.disturbed_cells)

    @cached_property
    def set_aside(self) -> dict[tuple[str, str, str, int], tuple[int, int]]:
        """Group -> how many of its processes `compare` sets aside, and of how many."""
        return self._noise.set_aside()

    def costs(self, key: Key, cost: Cost) -> list[float]:
        """Seconds or peak bytes of a step in each round that measured it."""
        rounds = self._by_round.get(self.ids.get(key, ""), {})
        return [value for value in map(attrgetter(cost), rounds.values()) if value > 0]

    def sample(self, key: Key, cost: Cost = "seconds") -> Sample | str:
        """The costs of a cell in this run, to compare with another run; or why it has none."""
        if reason := self.missing(key):
            return reason
        rounds = [one for one in self._by_round[self.ids[key]].values() if getattr(one, cost) > 0]
        if not rounds:
            return NOT_MEASURED
        logs = tuple(math.log(getattr(one, cost)) for one in rounds)
        squares = [one.error**2 for one in rounds]
        within = math.sqrt(sum(squares) / len(squares)) if cost == "seconds" else 0.0
        return Sample(logs, within, tuple([one.machine for one in rounds]))

    def cell(self, key: Key) -> Row | None:
        """The pooled row of a cell (as `pool_rounds` makes it), or None without a record."""
        place = self._row_of.get(key)
        return None if place is None else ColumnRow(self._pooled, place)

    def missing(self, key: Key) -> str | None:
        """Why a cell has no numbers (its outcome, mostly); None if the cell is ok."""
        place = self._row_of.get(key)
        if place is None:
            return NOT_RUN if key in self.keys else NO_CELL
        outcome = self._pooled["outcome"][place]
        return None if outcome == "ok" else str(outcome)

    def value(self, key: Key, column: str) -> Value:
        """A number of a cell, or why it is missing."""
        if reason := self.missing(key):
            return reason
        place = self._row_of[key]
        number: Any = self._pooled[column][place]
        if number is None or number is pd.NA or number != number:  # NaN
            return NOT_MEASURED
        if isinstance(number, str) or column not in self._timed:
            return number
        return Marked(number) if self.ids[key] in self.disturbed_cells else number

    @cached_property
    def _timed(self) -> set[str]:
        return {name for name, metric in self._values.metrics.items() if metric.timed}

    def known(self, key: Key, column: str) -> Value:
        """Like `value`, also for a cell that failed after this number was measured."""
        place = self._row_of.get(key)
        number: Any = None if place is None else self._pooled[column][place]
        if number is None or number is pd.NA or number != number:  # NaN
            return self.missing(key) or NOT_MEASURED
        return number

    def compare(
        self, key: Key, baseline: Key, baseline_name: str, name: str = "", cost: Cost = "seconds"
    ) -> Comparison | str:
        """`key` compared with `baseline` in each round that measured both on one machine.

        Of seconds, within the processes of `key` if the baseline was timed in all of them. A time,
        or such a ratio, that is improbable among the other rounds of its cell is set aside: the
        mean of the others is in its place (`outlying_rounds.set_aside`). Not so bytes.

        If one of the cells is not ok, the text is its name (by default none for `key` itself) and
        its outcome.
        """
        known = self._compared.get((key, baseline, cost))
        if known is not None:
            return known
        for cell, label in ((key, name), (baseline, "" if baseline == key else baseline_name)):
            if reason := self.missing(cell):
                return f"{label} {reason}".strip()
        found: Comparison | None
        if cost == "seconds" and (pairs := self.paired_rounds(key, baseline)):
            found = self._compare_pairs(key, pairs)
        else:
            found = self._compare_costs(key, baseline, cost)
        if found is None:
            return "no shared round"
        self._compared[key, baseline, cost] = found
        return found

    def paired_rounds(self, key: Key, baseline: Key) -> dict[int, Paired]:
        """Each round of a cell, compared within its process.

        Empty unless the baseline was timed in every process of the cell.
        """
        rounds = self._by_round.get(self.ids.get(key, ""), {})
        timed = {n: one.paired for n, one in rounds.items() if one.seconds > 0}
        own = self.ids.get(baseline)
        pairs = {n: one for n, one in timed.items() if one is not None and one.baseline == own}
        return pairs if len(pairs) == len(timed) else {}

    def _compare_pairs(self, key: Key, pairs: Mapping[int, Paired]) -> Comparison:
        """`compare` within the processes of a cell."""
        logs: Mapping[int, float] = {n: one.log_ratio for n, one in pairs.items()}
        sides: tuple[Moderated, ...] = ()
        if known := self._noise.paired.get(key):
            logs, sides = known.rounds.logs, (known.between,)
        within = math.sqrt(sum(one.error**2 for one in pairs.values()) / len(pairs))
        rounds = self._by_round[self.ids[key]]
        machines = tuple([rounds[n].machine for n in pairs])
        return Comparison(tuple([logs[n] for n in pairs]), within, key.framework, machines, sides)

    def _compare_costs(self, key: Key, baseline: Key, cost: Cost) -> Comparison | None:
        """`compare` of costs that were measured in processes of their own."""
        base = self._by_round[self.ids[baseline]]
        of = attrgetter(cost)
        ratios: list[float] = []
        squares: list[float] = []
        machines: list[str] = []
        sides: tuple[Moderated, ...] = ()
        own_logs: Mapping[int, float] | None = None
        times = self._noise.times if cost == "seconds" else {}
        if key in times and baseline in times and group_of(key) == group_of(baseline):
            (own_logs, _), own_noise = times[key]
            (base_logs, _), base_noise = times[baseline]
            sides = own_noise, base_noise
        for number, own in self._by_round[self.ids[key]].items():
            other = base.get(number)
            if other is None or own.machine != other.machine:
                continue
            if (dividend := of(other)) > 0 and (divisor := of(own)) > 0:
                if own_logs is None:
                    ratios.append(math.log(dividend / divisor))
                else:
                    ratios.append(base_logs[number] - own_logs[number])
                squares.append(own.error**2 + other.error**2)
                machines.append(own.machine)
        if not ratios:
            return None
        within = math.sqrt(sum(squares) / len(squares)) if cost == "seconds" else 0.0
        return Comparison(tuple(ratios), within, key.framework, tuple(machines), sides)

    def speed_ratio(self, key: Key, baseline: Key, baseline_name: str, name: str = "") -> Value:
        """How many times as many steps per second `key` makes as `baseline`.

        The geometric mean of the ratios within each round that measured both, or of their means
        on each machine; or the text that `compare` gives.
        """
        found = self.compare(key, baseline, baseline_name, name)
        return found if isinstance(found, str) else math.exp(np.mean(found.independent))

    @cached_property
    def _compared(self) -> dict[tuple[Key, Key, Cost], Comparison]:
        """What `compare` has found: several tables ask for the same."""
        return {}

    def twins(self) -> list[Key]:
        """The A/A twins of the run."""
        return [key for key in self.keys if key.replica]

    def settings_without(self, name: str) -> dict[str, str]:
        """Each setting -> the same without one field."""
        fields = [field for field in self.setting_fields if field != name]
        return {
            key.setting: self._setting(self._cells[cell_id], fields)
            for key, cell_id in self.ids.items()
        }

    def settings(self) -> list[str]:
        """The settings, sorted."""
        return list(self._settings)

    def variants(self, setting: str) -> list[str]:
        """The variants, in the order of the suite."""
        return list(self._layout(setting).variants)

    def pairs(self, setting: str | None = None) -> list[tuple[str, str]]:
        """Pairs of framework and mode; without a setting, of all settings."""
        return list(self._layout(setting).pairs)

    def frameworks(self, setting: str | None = None) -> list[str]:
        """The frameworks; without a setting, of all settings."""
        return list(dict.fromkeys(framework for framework, _ in self.pairs(setting)))

    def modes(self, setting: str | None = None) -> list[str]:
        """The modes; without a setting, of all settings."""
        present = {mode for _, mode in self.pairs(setting)}
        return [mode for mode in MODES if mode in present]

    def lengths(self, setting: str | None = None) -> list[int]:
        """The lengths, ascending; without a setting, of all settings."""
        return list(self._layout(setting).lengths)

    def longest(self, setting: str) -> int:
        """The longest length of a setting."""
        return self._layout(setting).lengths[-1]

    @cached_property
    def _settings(self) -> list[str]:
        settings = {key.setting for key in self.ids}
        return sorted(settings, key=lambda text: [  # batch=4 before batch=16
            (part.isdigit(), int(part) if part.isdigit() else 0, part)
            for part in re.split(r"(\d+)", text)
        ])  # fmt: skip

    def _layout(self, setting: str | None) -> _Layout:
        return self._layouts.get(setting) or _Layout.of([], self.variant_order)

    @cached_property
    def _layouts(self) -> dict[str | None, _Layout]:
        """Setting, or None for all of them -> what its tables have in rows and columns."""
        by_setting: dict[str | None, list[Key]] = {None: list(self.ids)}
        for key in self.ids:
            by_setting.setdefault(key.setting, []).append(key)
        return {name: _Layout.of(keys, self.variant_order) for name, keys in by_setting.items()}


def _shard(cell: Cell) -> tuple[Any, ...]:
    """What cells have in common that one machine has measured, as ratios are taken across them."""
    content = cell.content
    return tuple((name, hashable(value)) for name, value in content.items() if name not in COMPARED)
