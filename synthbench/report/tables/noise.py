"""The noise floor of each group of cells: the baseline against its A/A twin."""

from __future__ import annotations

import math

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row, key_columns, key_values


def noise(grid: Grid, context: Context) -> Table | None:
    """One row per framework, mode and length; None without A/A twins."""
    twins = [key for key in grid.twins() if not isinstance(_log_ratios(grid, key), str)]
    if not twins:
        return None
    columns = key_columns(grid, "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True), Column("rounds", "exact_count")]
    columns += [Column("A/A ratio", "ratio"), Column("noise floor", "ratio")]
    columns += [Column("margin", "ratio")]
    rows: list[Row] = []
    for key in twins:
        values, floor = _log_ratios(grid, key), context.noise.floor(key)
        assert not isinstance(values, str) and floor is not None
        rounds = len(values)
        rows.append(
            (
                *key_values(grid, key.setting, key.framework, key.mode, key.seq_len), rounds,
                math.exp(sum(values) / rounds), floor.ratio(rounds),
                context.noise.margin(key, rounds),
            )
        )  # fmt: skip
    note = (
        "A/A ratio: the speed of the A/A twin, the same program measured twice, over that of "
        f"{context.baseline}. noise floor: another such ratio, or one over it, is below this in 95 "
        "of 100 cases; a framework's groups share what they know. margin: the larger of the noise "
        f"floor and the suite's margin of {percentage(1 + context.noise.declared)}; a verdict "
        "`faster` or `slower` needs a larger ratio."
    )
    title = "Noise: the baseline against itself"
    return Table("noise", title, note, context.shared, tuple(columns), rows)


def _log_ratios(grid: Grid, twin: Key) -> tuple[float, ...] | str:
    found = grid.compare(twin, twin._replace(replica=0), twin.variant)
    return found if isinstance(found, str) else found.log_ratios
