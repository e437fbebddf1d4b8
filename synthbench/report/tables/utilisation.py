"""The share of the device's best matrix-product rate that each cell reaches."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.measure.plausibility import ceilings_of, step_flops
from synthbench.metrics import si
from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid, Key
from synthbench.report.data.table import Column, Marked, Table, Value, metric_column
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair, why_missing
from synthbench.run_info import Ceiling

NO_CEILING = "no ceiling"
DISTURBED = "(disturbed while measured: the true ceiling may be higher)"


def utilisation(grid: Grid, context: Context) -> Table:
    """One row per framework, mode and variant: the share of the ceiling by length."""
    columns: list[Column] = key_columns(grid, "framework", "mode", "variant")
    columns += [metric_column("utilisation", f"L={length}") for length in grid.lengths()]
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        cells = [Key(setting, variant, framework, mode, n) for n in grid.lengths()]
        values = [share(grid, key, context.ceilings_of(grid.machine(key))) for key in cells]
        rows.append((*key_values(grid, setting, framework, mode, variant), *values))
    known = "; ".join(map(describe, context.ceilings)) or "not measured in this run"
    note = (
        "FLOPs per second of the whole step (as traced, or by formula for a forward pass), over "
        f"the best rate of a square matrix product on this device. Ceilings: {known}."
        f"{why_missing(grid, 'utilisation')}"
    )
    return Table(
        "utilisation", "Utilisation of the device", note, context.shared, tuple(columns), rows
    )


def share(grid: Grid, key: Key, ceilings: Sequence[Ceiling]) -> Value:
    """FLOPs per second over the ceiling, or why it is missing."""
    seconds = grid.value(key, "median_seconds")
    row = grid.cell(key)
    if isinstance(seconds, str) or row is None:
        return str(seconds)
    numbers = [grid.known(key, name) for name in ("flops", "traced_flops")]
    formula, traced = (None if isinstance(n, str) else int(n) for n in numbers)
    flops = step_flops(key.mode, formula, traced)
    if flops is None:
        return NOT_MEASURED
    measured_as = (key.framework, row["dtype"], row["device"])
    for ceiling in ceilings:
        if (ceiling.framework, ceiling.dtype, ceiling.device) == measured_as:
            rate = ceilings_of(ceiling, row["devices"]) * ceiling.flops_per_second
            reached = flops / seconds / rate
            return Marked(reached) if isinstance(seconds, Marked) else reached
    return NO_CEILING


def describe(ceiling: Ceiling) -> str:
    """A ceiling in one line."""
    return (
        f"{ceiling.framework} {ceiling.dtype} on {ceiling.device} "
        f"{si(ceiling.flops_per_second)}FLOP/s (size {ceiling.matrix_size}), copy "
        f"{si(ceiling.bytes_per_second)}B/s{' ' + DISTURBED if ceiling.warnings else ''}"
    )
