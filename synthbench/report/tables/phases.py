"""The time to build, compile, run the first step, and run a step after warm-up."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Table, Value, metric_column
from synthbench.report.tables.break_even import break_even, has_pairs
from synthbench.report.tables.layout import (
    Row,
    at_longest,
    key_columns,
    key_values,
    rows_by_mode,
)

PHASES = ("build_seconds", "compile_seconds", "first_step_seconds", "median_seconds")


def phases(grid: Grid, context: Context) -> Table:
    """One row per mode and variant: the time of each phase at the longest length."""
    columns = key_columns(grid, "mode", "variant")
    paired = has_pairs(grid)
    for framework in grid.frameworks():
        columns += [metric_column(phase, framework) for phase in PHASES]
        columns += [metric_column("break_even_steps", framework)] * paired
    rows: list[Row] = []
    for setting, mode, variant in rows_by_mode(grid):
        values: list[Value] = []
        for framework in grid.frameworks():
            key = Key(setting, variant, framework, mode, grid.longest(setting))
            values += [grid.value(key, phase) for phase in PHASES]
            values += [break_even(grid, key)] * paired
        rows.append((*key_values(grid, setting, mode, variant), *values))
    note = f"Milliseconds, at {at_longest(grid)}. steady: the median step after warm-up."
    if paired:
        note += (
            " break-even: the number of steps after which compiling pays off: the time of "
            "compilation and first step, over what each later step saves."
        )
    if earlier := compiled_earlier(grid, context.started):
        note += (
            f" The compile times of {' and '.join(earlier)} are those of an earlier run, whose "
            "programs this one has loaded (`compiled_at` in the records)."
        )
    title = "Build, compile, first step, steady state"
    return Table("phases", title, note, context.shared, tuple(columns), rows)


def compiled_earlier(grid: Grid, started: str) -> list[str]:
    """The frameworks with a compile time from before the run `started`."""
    timings = [(record.cell.framework, record.measurements.timing) for record in grid.latest]
    found = {
        framework
        for framework, timing in timings
        if timing is not None and timing.compiled_at is not None and timing.compiled_at < started
    }
    return [framework for framework in grid.frameworks() if framework in found]
