"""How time and memory grow with the length, and where a variant overtakes the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthbench.analysis.comparison import Comparison, Estimate, estimate
from synthbench.analysis.scaling import FEWEST_LENGTHS, crossing, exponent, upper_half
from synthbench.metrics import significant
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Cost, Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair

COSTS: dict[str, Cost] = {"time": "seconds", "memory": "peak_bytes"}
TOO_FEW = "too few lengths"


def scaling(grid: Grid, context: Context) -> Table:
    """One row per framework, mode and variant: exponents and crossings of time and memory."""
    baseline = context.baseline
    columns = key_columns(grid, "framework", "mode", "variant")
    for name in COSTS:
        columns += [Column(label, "exponent", name) for label in ("exponent", "low", "high")]
        group = f"{name} overtakes {baseline}"
        columns += [Column(label, "length", group) for label in ("at", "low", "high")]
    series = {
        (setting, framework, mode, variant): [
            Key(setting, variant, framework, mode, length) for length in grid.lengths(setting)
        ]
        for setting, framework, mode, variant in rows_by_pair(grid)
    }
    compared = {cost: _estimates(grid, baseline, series.values(), cost) for cost in COSTS.values()}
    rows: list[Row] = []
    for (setting, framework, mode, variant), keys in series.items():
        row: list[Value] = []
        for cost in COSTS.values():
            row += _exponent(grid, keys, cost)
            ratios = [compared[cost][key] for key in keys]
            row += ["baseline"] * 3 if variant == baseline else _crossing(keys, ratios, cost)
        rows.append((*key_values(grid, setting, framework, mode, variant), *row))
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


def _estimates(
    grid: Grid, baseline: str, series: Iterable[Sequence[Key]], cost: Cost
) -> dict[Key, Estimate | str]:
    """The ratio to the baseline of each cell, all estimated together; or why it is missing."""
    found = {
        key: grid.compare(key, key._replace(variant=baseline), baseline, cost=cost)
        for keys in series
        for key in keys
    }
    compared = {
        key: one
        for key, one in found.items()
        if isinstance(one, Comparison) and key.variant != baseline
    }
    estimates = dict(zip(compared, estimate(list(compared.values())), strict=True))
    missing = {key: one for key, one in found.items() if isinstance(one, str)}
    return {key: estimates.get(key, missing.get(key, "baseline")) for key in found}


def _exponent(grid: Grid, keys: Sequence[Key], cost: Cost) -> list[Value]:
    measured = {
        key.seq_len: costs
        for key in keys
        if grid.missing(key) is None and (costs := grid.costs(key, cost))
    }
    chosen = upper_half(list(measured))
    if len(chosen) < FEWEST_LENGTHS:
        return [TOO_FEW] * 3
    fitted = exponent([(length, one) for length in chosen for one in measured[length]])
    return [fitted.value, fitted.low, fitted.high]


def _crossing(keys: Sequence[Key], ratios: Sequence[Estimate | str], cost: Cost) -> list[Value]:
    known = [
        (key.seq_len, one)
        for key, one in zip(keys, ratios, strict=True)
        if isinstance(one, Estimate)
    ]
    if len(known) < 2:
        missing = [one for one in ratios if isinstance(one, str)]
        return [missing[0] if missing and not known else TOO_FEW] * 3
    lengths = [length for length, _ in known]
    found = crossing(lengths, [one for _, one in known])
    at: Value = found.length
    match found.kind:
        case "always":
            at = "always"
        case "never":
            at = "never in range"
        case "falls behind":
            at = f"until {significant(found.length)}"
    if cost == "peak_bytes" and all(one.rounds == 1 for _, one in known):
        return [at, "one round", "one round"]  # there is one peak per round
    ends = [_end(end, lengths) for end in (found.low, found.high)]
    return [at, *ends]


def _end(length: float, measured: Sequence[int]) -> Value:
    if length == 0:
        return f"below {measured[0]}"
    return f"above {measured[-1]}" if length == float("inf") else length
