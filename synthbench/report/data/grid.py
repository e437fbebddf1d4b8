"""The numbers of a run by the place of their cell in tables, and cells compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from synthbench.analysis.comparison import Comparison
from synthbench.analysis.moderated_variance import Moderated
from synthbench.analysis.two_runs import Sample
from synthbench.measure.disturbed import disturbances
from synthbench.report.data.cell_layout import CellLayout
from synthbench.report.data.columns import values_of
from synthbench.report.data.frame import ColumnRow, Row, Values, is_missing, pooled_frame
from synthbench.report.data.key import Key as Key
from synthbench.report.data.key import group_of as group_of
from synthbench.report.data.round_costs import (
    ByRound,
    Paired,
    Place,
    RoundNoise,
    costs_by_round,
    units_of,
)
from synthbench.report.data.table import Marked, Value

NOT_RUN = "not run"  # the cell belongs to the run and has no record yet
NOT_MEASURED = "not measured"  # the cell is ok, but this number could not be measured
NO_CELL = "no cell"  # the run has no such cell
TWIN = "(A/A twin)"  # after the name of the baseline, in rows of its twin

Cost = Literal["seconds", "peak_bytes"]


class Counter(NamedTuple):
    """A framework, and the metrics for which it had no counter: metric -> why."""

    framework: str
    missing: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Grid(CellLayout):
    """The records of one run: what each cell measured, and cells compared.

    `in_seconds`: times are medians in seconds, also where the machine's speed is known.
    """

    in_seconds: bool = False

    @cached_property
    def units(self) -> Mapping[Place, float]:
        """The usual seconds of the product that times are relative to; empty: they are medians."""
        return {} if self.in_seconds else units_of(self._values, self.latest)

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
        return costs_by_round(self._values, self.latest, self._cells, self.units)

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

    def seconds_by_round(self, cell_id: str) -> dict[int, float]:
        """The seconds of a step in each round that measured it, as ratios compare them."""
        rounds = self._by_round.get(cell_id, {})
        return {number: one.seconds for number, one in rounds.items() if one.seconds > 0}

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
        squares = [self._noise.error_of(key, one) ** 2 for one in pairs.values()]
        within = math.sqrt(sum(squares) / len(squares))
        if known := self._noise.paired.get(key):
            logs, sides = known.rounds.logs, (known.between,)
            within = within if known.within is None else known.within
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
            (own_logs, _), own_noise, _ = times[key]
            (base_logs, _), base_noise, _ = times[baseline]
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
