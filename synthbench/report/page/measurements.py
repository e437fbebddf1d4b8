"""The table of the page that has everything about a cell in one row."""

from __future__ import annotations

from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value, metric_column
from synthbench.report.page.run_data import NO_RATIO, RunData
from synthbench.report.tables.layout import key_columns, key_values

NAME = "measurements"
METRICS = ("median_seconds", "half_width_percent", "steps_per_second", "peak_bytes", "flops")
NO_BASELINE = "no ratio"


def measurements(data: RunData) -> Table:
    """One row per cell of the task `cost`: time, ratio with its verdict, memory, FLOPs, outcome."""
    grid, baseline = data.cost_grid, data.context.baseline
    columns = key_columns(grid, "framework", "mode", "variant")
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [metric_column(name) for name in METRICS]
    columns += [Column(label, "ratio") for label in (f"speed vs {baseline}", "low", "high")]
    columns += [Column("verdict"), Column("outcome")]
    rows = [_row(data, grid, key) for key in grid.keys if not key.replica]
    note = (
        "One row per cell. steady: the median time of a step after warm-up, in ms; ±%: half the "
        "width of its 95% interval, in percent; of several rounds, half of what their intervals "
        "span. MB: peak memory. FLOPs: one forward pass, in mode decode one token, by formula. "
        "Ratio, low, high and verdict as in the table `ratios`."
    )
    title = "All measurements"
    return Table(NAME, title, note, data.context.shared, tuple(columns), rows)


def _row(data: RunData, grid: Grid, key: Key) -> tuple[Value, ...]:
    first = key_values(grid, key.setting, key.framework, key.mode, key.variant, key.seq_len)
    numbers: list[Value] = [
        grid.known(key, name) if name == "flops" else grid.value(key, name) for name in METRICS
    ]
    if key.variant == data.context.baseline:
        compared: list[Value] = ["baseline"] * 4
    else:
        one = data.ratios.get(grid.ids.get(key, ""), NO_RATIO)
        compared = [one.ratio, one.low, one.high, one.verdict]
        compared = [value if value != "" else NO_BASELINE for value in compared]
    return (*first, *numbers, *compared, grid.missing(key) or "ok")
