"""What each cell took in each round, and how much that differs between rounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from synthbench.analysis.cell_noise import CellNoise, noise_of_cells
from synthbench.analysis.moderated_variance import FEWEST
from synthbench.analysis.weighted_rounds import usual_error
from synthbench.report.data.frame import Values
from synthbench.report.data.key import Key, group_of

NORMAL_95 = 1.959964  # half the width of a 95% confidence interval, in standard errors


class Paired(NamedTuple):
    """A cell compared with its baseline within one process."""

    baseline: str  # the id of its cell
    log_ratio: float  # log(time of the baseline / time of the cell)
    error: float  # its standard error, from the samples of this process; infinite: not known


class Costs(NamedTuple):
    """The costs of a cell in one round, NaN if not measured, and the machine that measured it."""

    seconds: float
    error: float  # standard error of log(seconds), from the samples of this round
    peak_bytes: float
    machine: str
    paired: Paired | None = None  # None: the baseline was not timed in this process


ByRound = Mapping[str, Mapping[int, Costs]]  # cell id -> round -> its costs
Place = tuple[str, str, str, int]  # framework, machine, device and number of devices


def costs_by_round(
    values: Values, records: Sequence[Any], ids: Iterable[str], units: Mapping[Place, float]
) -> ByRound:
    """The costs of a step of each cell; times at the usual speed of the machine where it is known.

    `records`: those of the `values`, in the same order; `ids`: of all cells; `units`: those of
    `units_of`, or none for medians in seconds.
    """
    found: dict[str, dict[int, Costs]] = {cell_id: {} for cell_id in ids}
    names = (
        "median_seconds", "low_seconds", "high_seconds",
        "relative_time", "relative_low", "relative_high", "peak_bytes",
        "paired_ratio", "paired_low", "paired_high",
    )  # fmt: skip
    columns = map(values.column, names)
    baselines = values.column("paired_with")
    for record, baseline, *numbers in zip(records, baselines, *columns, strict=True):
        of_step = (math.nan if c is None else c for c in numbers)
        median, low, high, *relative, peak, ratio, ratio_low, ratio_high = of_step
        unit = units.get(_place(record))
        if unit is not None and relative[0] > 0:
            median, low, high = (unit * time for time in relative)
        paired = None
        if baseline is not None and ratio > 0:
            paired = Paired(baseline, math.log(ratio), _error(ratio_low, ratio_high))
        costs = Costs(median, _error(low, high), float(peak), record.machine, paired)
        found[record.id][record.round] = costs
    return {cell_id: dict(sorted(rounds.items())) for cell_id, rounds in found.items()}


def _error(low: float, high: float) -> float:
    """The standard error of a logarithm, from the 95% interval of its number."""
    return math.log(high / low) / (2 * NORMAL_95) if low > 0 else math.inf


def _place(record: Any) -> Place:
    cell = record.cell
    # PyTorch's devices share the cores of a CPU: the fixed work has those of one of them.
    return cell.framework, record.machine, cell.device, cell.devices


def units_of(values: Values, records: Sequence[Any]) -> dict[Place, float]:
    """The usual seconds of the fixed work between the steps.

    Only of devices of which each timed record has them, in both frameworks: times that are relative
    to it are not medians, so that the two cannot be compared.
    """
    found: dict[Place, list[float | None]] = {}
    columns = map(values.column, ("median_seconds", "calibration_seconds"))
    for record, median, calibration in zip(records, *columns, strict=True):
        if median is not None:
            found.setdefault(_place(record), []).append(calibration)
    without = {place[1:3] for place, numbers in found.items() if None in numbers}
    return {
        place: float(np.median([one for one in numbers if one is not None]))
        for place, numbers in found.items()
        if place[1:3] not in without
    }


@dataclass(frozen=True)
class RoundNoise:
    """How much cells differ between rounds, of those that one machine measured in all rounds.

    `disturbed`: the ids of cells with a disturbed round. They differ by more than the others. As
    they are few, those of all lengths are taken together, unless there are fewer than FEWEST.
    """

    ids: Mapping[Key, str]
    by_round: ByRound
    disturbed: Collection[str] = ()

    @cached_property
    def times(self) -> dict[Key, CellNoise]:
        """Of the time of each cell, without what a round did to all cells of its group."""
        return self._noise(
            {
                key: {n: math.log(one.seconds) for n, one in rounds.items() if one.seconds > 0}
                for key, rounds in self._of_one_machine.items()
            },
            shares_rounds=True,
        )

    @cached_property
    def paired(self) -> dict[Key, CellNoise]:
        """Of the ratio of each cell to the baseline in its own processes."""
        pairs = self._pairs.items()
        ratios = {key: {n: one.log_ratio for n, one in own.items()} for key, own in pairs}
        errors = {key: {n: one.error for n, one in own.items()} for key, own in pairs}
        return self._noise(ratios, shares_rounds=False, errors=errors)

    def error_of(self, key: Key, pair: Paired) -> float:
        """The error within a process; the usual one of the framework where it is not known."""
        return pair.error if math.isfinite(pair.error) else self._usual_errors[key.framework]

    @cached_property
    def _usual_errors(self) -> dict[str, float]:
        """Framework -> the usual error within a process, of all of its processes."""
        every: dict[str, list[dict[int, float]]] = {}
        for key, cell_id in self.ids.items():
            pairs = {n: one.paired for n, one in self.by_round[cell_id].items()}
            errors = {n: one.error for n, one in pairs.items() if one is not None}
            every.setdefault(key.framework, []).append(errors)
        return {framework: usual_error(errors) for framework, errors in every.items()}

    @cached_property
    def _pairs(self) -> dict[Key, dict[int, Paired]]:
        """The cells that were compared with the baseline in all of their processes."""
        found: dict[Key, dict[int, Paired]] = {}
        for key, rounds in self._of_one_machine.items():
            timed = {n: one.paired for n, one in rounds.items() if one.seconds > 0}
            pairs = {n: one for n, one in timed.items() if one is not None}
            if pairs and len(pairs) == len(timed):
                found[key] = pairs
        return found

    def set_aside(self) -> dict[tuple[str, str, str, int], tuple[int, int]]:
        """Group -> how many of its processes ratios are without, and of how many.

        Only of groups where it is known how much rounds differ.
        """
        found: dict[tuple[str, str, str, int], tuple[int, int]] = {}
        for key, noise in (self.paired | self._times_in_ratios()).items():
            aside, processes = found.get(group_of(key), (0, 0))
            rounds = noise.rounds
            found[group_of(key)] = aside + len(rounds.aside), processes + len(rounds.logs)
        return found

    def _times_in_ratios(self) -> dict[Key, CellNoise]:
        """The times that ratios are taken of.

        That of a baseline is only one of them if another cell was not timed in the same processes.
        """
        alone = {key: one for key, one in self.times.items() if key not in self._pairs}
        with_pairs = {group_of(key) for key in self._pairs}
        baselines = {one.baseline for pairs in self._pairs.values() for one in pairs.values()}
        groups = {
            group_of(key)
            for key in alone
            if group_of(key) not in with_pairs or self.ids[key] not in baselines
        }
        return {key: one for key, one in alone.items() if group_of(key) in groups}

    @cached_property
    def _of_one_machine(self) -> dict[Key, Mapping[int, Costs]]:
        found = {key: self.by_round[cell_id] for key, cell_id in self.ids.items()}
        return {
            key: rounds
            for key, rounds in found.items()
            if len({one.machine for one in rounds.values()}) == 1
        }

    def _noise(
        self,
        logs: Mapping[Key, Mapping[int, float]],
        *,
        shares_rounds: bool,
        errors: Mapping[Key, Mapping[int, float]] | None = None,
    ) -> dict[Key, CellNoise]:
        frameworks: dict[str, dict[Hashable, dict[Key, Mapping[int, float]]]] = {}
        for key, own in logs.items():
            if own:
                groups = frameworks.setdefault(key.framework, {})
                groups.setdefault(group_of(key), {})[key] = own
        found: dict[Key, CellNoise] = {}
        for groups in frameworks.values():
            found |= noise_of_cells(groups, self._family, shares_rounds, errors)
        return found

    def _family(self, _: Hashable, key: Key) -> Hashable:
        """The same for cells of a framework that are about equally noisy."""
        if self._number_disturbed[key.framework] >= FEWEST and self.ids[key] in self.disturbed:
            return "disturbed"
        return key.seq_len

    @cached_property
    def _number_disturbed(self) -> Counter[str]:
        """How many each framework has, of several rounds."""
        return Counter(
            key.framework
            for key, rounds in self._of_one_machine.items()
            if len(rounds) > 1 and self.ids[key] in self.disturbed
        )
