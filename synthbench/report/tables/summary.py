"""One row per variant at the longest length: cost, speed, ratio to the baseline, memory."""

from __future__ import annotations

from synthbench.analysis.comparison import Judgement
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value, metric_column
from synthbench.report.tables.layout import (
    Row,
    at_longest,
    first_known,
    key_columns,
    key_values,
)
from synthbench.report.tables.memory import MB
from synthbench.report.tables.scaling import BASELINE

MODES = {
    "train": "A train step (forward, cross-entropy, backward, Adam)",
    "forward": "A forward pass",
}


def summary(grid: Grid, context: Context, *, mode: str) -> Table:
    """One row per variant at the longest length, for one mode."""
    frameworks, baseline = grid.frameworks(), context.baseline
    has_baseline = any(baseline in grid.variants(setting) for setting in grid.settings())
    columns = key_columns(grid, "variant")
    columns += [metric_column(metric, is_key=True) for metric in ("parameters", "flops")]
    for framework in frameworks:
        columns += [metric_column("steps_per_second", framework)]
        if has_baseline:
            columns += [Column(f"speed vs {baseline}", "ratio", framework)]
            columns += [Column("verdict", group=framework)]
        columns += [metric_column("peak_bytes", framework)]
    rows: list[Row] = []
    for setting in grid.settings():
        if mode not in grid.modes(setting):
            continue
        for variant in grid.variants(setting):
            longest = grid.longest(setting)
            cells = [Key(setting, variant, framework, mode, longest) for framework in frameworks]
            row: list[Value] = [first_known(grid, cells, "declared_parameters")]
            row += [first_known(grid, cells, "flops")]
            for key in cells:
                row += [grid.value(key, "steps_per_second")]
                if has_baseline:
                    row += _compared(grid, context, key)
                row += [grid.value(key, "peak_bytes")]
            rows.append((*key_values(grid, setting, variant), *row))
    ratio = (
        f"speed vs {baseline}: steps per second over those of {baseline}; above 1 is faster if "
        "the verdict says so. Intervals are in `ratios`. "
    )
    if grid.has("paired_ratio"):
        ratio += (
            f"It compares steps that were timed in turn with those of {baseline} in one process, "
            "so it may differ from the quotient of the steps/s beside it, which are medians of "
            "different processes; the more, the noisier the machine. "
        )
    note = f"{ratio if has_baseline else ''}FLOPs: one forward pass, by formula. {MB}"
    title = f"{MODES[mode]}: every variant at {at_longest(grid)}"
    if not rows:
        note = f"This run has no cells of mode {mode}."
    return Table(mode, title, note, context.shared, tuple(columns), rows)


def _compared(grid: Grid, context: Context, key: Key) -> list[Value]:
    """Ratio and verdict of a cell, as in `ratios`."""
    baseline = context.baseline
    ratio = grid.speed_ratio(key, key._replace(variant=baseline), baseline)
    if isinstance(ratio, str):
        return [ratio, ratio]
    found = context.verdicts.get(key)
    return [ratio, found.verdict if isinstance(found, Judgement) else BASELINE]
