"""The parts of peak memory, and the peak compared with its prediction."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid, Key
from synthbench.report.data.table import Column, Table, Value, metric_column
from synthbench.report.tables.layout import (
    Row,
    at_longest,
    key_columns,
    key_values,
    rows_by_mode,
    why_missing,
)

PARTS: tuple[str, ...] = ("parameter_bytes", "optimizer_bytes", "batch_bytes", "activation_bytes")


def memory_parts(grid: Grid, context: Context) -> Table:
    """One row per mode and variant: the parts of the peak and the prediction."""
    columns, parts = key_columns(grid, "mode", "variant"), list(PARTS)
    if "decode" in grid.modes():
        parts += ["state_bytes"]
    for framework in grid.frameworks():
        columns += [metric_column(part, framework) for part in parts]
        columns += [Column("peak", "peak_bytes", framework)]
        columns += [
            metric_column("predicted_bytes", framework),
            Column("predicted/peak", "share", framework),
        ]
    rows: list[Row] = []
    for setting, mode, variant in rows_by_mode(grid):
        length = grid.longest(setting)
        cells = [Key(setting, variant, f, mode, length) for f in grid.frameworks()]
        values = [value for key in cells for value in _values(grid, key, parts)]
        rows.append((*key_values(grid, setting, mode, variant), *values))
    note = (
        f"MB (10^6 bytes), at {at_longest(grid)}. activations: the most that a step adds to "
        "parameters, optimizer state and batch; it includes the gradients. predicted: the peak as "
        f"predicted before the first step{_tools(grid)}.{why_missing(grid, 'peak_bytes')}"
    )
    if "decode" in grid.modes():
        note += " state: what decoding keeps of earlier tokens; it is no part of the activations."
    title = "Peak memory by part, and its prediction"
    return Table("memory_parts", title, note, context.shared, tuple(columns), rows)


def _values(grid: Grid, key: Key, parts: Sequence[str]) -> Row:
    """The parts, the peak, the prediction, and the prediction over the peak."""
    peak = grid.value(key, "peak_bytes")
    predicted = grid.known(key, "predicted_bytes")
    ratio: Value = grid.missing(key) or NOT_MEASURED
    if not isinstance(peak, str) and not isinstance(predicted, str) and peak:
        ratio = predicted / peak
    return (*(grid.value(key, part) for part in parts), peak, predicted, ratio)


def _tools(grid: Grid) -> str:
    """The tool that predicted, by framework."""
    found = sorted(grid.texts("predicted_tool"), reverse=True)
    return f": {'; '.join(f'{framework} by {tool}' for framework, tool in found)}" if found else ""
