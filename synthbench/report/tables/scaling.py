"""How time and memory grow with the length, and where a variant overtakes the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from synthbench.analysis.comparison import Comparison, Estimate, estimate
from synthbench.analysis.scaling import (
    FEWEST_LENGTHS,
    Crossing,
    Exponent,
    crossing,
    exponents,
    upper_half,
)
from synthbench.metrics import significant
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Cost, Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair

COSTS: dict[str, Cost] = {"time": "seconds", "memory": "peak_bytes"}
TOO_FEW = "too few lengths"
BASELINE = "baseline"  # in place of a ratio to itself


class Series(NamedTuple):
    """A variant over all lengths of its setting."""

    setting: str
    framework: str
    mode: str
    variant: str


class Overtaking(NamedTuple):
    """Where a variant crosses the baseline; `lengths`: those at which both were measured."""

    crossing: Crossing
    lengths: tuple[int, ...]
    rounds: int  # the most at any length


class Growth(NamedTuple):
    """How one cost of a variant grows; a text says why a part is missing."""

    exponent: Exponent | str
    overtaking: Overtaking | str


def scaling(grid: Grid, context: Context) -> Table:
    """One row per framework, mode and variant: exponents and crossings of time and memory."""
    baseline = context.baseline
    columns = key_columns(grid, "framework", "mode", "variant")
    for name in COSTS:
        columns += [Column(label, "exponent", name) for label in ("exponent", "low", "high")]
        group = f"{name} overtakes {baseline}"
        columns += [Column(label, "length", group) for label in ("at", "low", "high")]
    found = {cost: growth(grid, baseline, cost) for cost in COSTS.values()}
    rows: list[Row] = []
    for series in map(Series._make, rows_by_pair(grid)):
        row: list[Value] = []
        for cost in COSTS.values():
            one = found[cost][series]
            row += _exponent_values(one.exponent) + _crossing_values(one.overtaking, cost)
        rows.append((*key_values(grid, *series), *row))
    note = (
        "exponent: cost ~ length^exponent, a least-squares fit on log scales with one point per "
        "round, over the longer half of the lengths at which the variant ran, at least "
        f"{FEWEST_LENGTHS}; with the 95% confidence interval of the slope. overtakes {baseline}: "
        f"from this length on, up to the longest, the variant costs less than {baseline} "
        "(`until`: up to this length it costs less), interpolated on log scales. Its 95% "
        "confidence interval comes from the errors of the ratios; with one round, only from the "
        "samples within that round."
    )
    title = f"Scaling with length, and where variants overtake {baseline}"
    return Table("scaling", title, note, context.shared, tuple(columns), rows)


_KNOWN: WeakKeyDictionary[Grid, dict[tuple[str, Cost], dict[Series, Growth]]]
_KNOWN = WeakKeyDictionary()  # the screen and the table of a large run share them


def growth(grid: Grid, baseline: str, cost: Cost) -> dict[Series, Growth]:
    """The exponent of each variant, and where it crosses the baseline."""
    known = _KNOWN.setdefault(grid, {})
    if (baseline, cost) not in known:
        known[baseline, cost] = _growth(grid, baseline, cost)
    return known[baseline, cost]


def _growth(grid: Grid, baseline: str, cost: Cost) -> dict[Series, Growth]:
    keys = {
        series: [
            Key(series.setting, series.variant, series.framework, series.mode, length)
            for length in grid.lengths(series.setting)
        ]
        for series in map(Series._make, rows_by_pair(grid))
    }
    compared = _estimates(grid, baseline, keys.values(), cost)
    found = _exponents(grid, list(keys.values()), cost)
    return {
        series: Growth(
            one,
            BASELINE
            if series.variant == baseline
            else _overtaking(of_series, [compared[key] for key in of_series]),
        )
        for (series, of_series), one in zip(keys.items(), found, strict=True)
    }


def _estimates(
    grid: Grid, baseline: str, series: Iterable[Sequence[Key]], cost: Cost
) -> dict[Key, Estimate | str]:
    """The ratio to the baseline of each cell, all estimated together; or why it is missing."""
    found = {
        key: grid.compare(key, key._replace(variant=baseline), baseline, cost=cost)
        for keys in series
        for key in keys
        if key.variant != baseline
    }
    compared = {key: one for key, one in found.items() if isinstance(one, Comparison)}
    estimates = dict(zip(compared, estimate(list(compared.values())), strict=True))
    return {key: one if isinstance(one, str) else estimates[key] for key, one in found.items()}


def _exponents(grid: Grid, series: Sequence[Sequence[Key]], cost: Cost) -> list[Exponent | str]:
    points = [_points(grid, keys, cost) for keys in series]
    found = iter(exponents([one for one in points if one]))
    return [next(found) if one else TOO_FEW for one in points]


def _points(grid: Grid, keys: Sequence[Key], cost: Cost) -> list[tuple[int, float]]:
    """What the exponent of a series is fitted to; empty where that are too few lengths."""
    measured = {
        key.seq_len: costs
        for key in keys
        if grid.missing(key) is None and (costs := grid.costs(key, cost))
    }
    chosen = upper_half(list(measured))
    if len(chosen) < FEWEST_LENGTHS:
        return []
    return [(length, one) for length in chosen for one in measured[length]]


def _overtaking(keys: Sequence[Key], ratios: Sequence[Estimate | str]) -> Overtaking | str:
    known = [
        (key.seq_len, one)
        for key, one in zip(keys, ratios, strict=True)
        if isinstance(one, Estimate)
    ]
    if len(known) < 2:
        missing = [one for one in ratios if isinstance(one, str)]
        return missing[0] if missing and not known else TOO_FEW
    lengths = tuple(length for length, _ in known)
    found = crossing(lengths, [one for _, one in known])
    return Overtaking(found, lengths, max(one.rounds for _, one in known))


def _exponent_values(found: Exponent | str) -> list[Value]:
    return [found] * 3 if isinstance(found, str) else [found.value, found.low, found.high]


def _crossing_values(overtaking: Overtaking | str, cost: Cost) -> list[Value]:
    if isinstance(overtaking, str):
        return [overtaking] * 3
    found = overtaking.crossing
    at: Value = found.length
    match found.kind:
        case "always":
            at = "always"
        case "never":
            at = "never in range"
        case "falls behind":
            at = f"until {significant(found.length)}"
    if cost == "peak_bytes" and overtaking.rounds == 1:
        return [at, "one round", "one round"]  # there is one peak per round
    return [at, *(crossing_end(end, overtaking.lengths) for end in (found.low, found.high))]


def crossing_end(length: float, measured: Sequence[int]) -> Value:
    """An end of the interval of a crossing; in words if it is outside the measured lengths."""
    if length == 0:
        return f"below {measured[0]}"
    return f"above {measured[-1]}" if length == float("inf") else length
