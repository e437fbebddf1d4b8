"""The noise floor of each group of cells: the baseline against its A/A twin."""

from __future__ import annotations

import math

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row, key_columns, key_values


def noise(grid: Grid, context: Context) -> Table | None:
    """One row per framework, mode and length; None without A/A twins."""
    compared = {
        key: found
        for key in grid.twins()
        if not isinstance(found := grid.compare(key, key._replace(replica=0), key.variant), str)
    }
    if not compared:
        return None
    columns = key_columns(grid, "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True), Column("rounds", "exact_count")]
    columns += [Column("A/A ratio", "ratio"), Column("noise floor", "ratio")]
    columns += [Column("margin", "ratio")]
    rows: list[Row] = []
    for key, found in compared.items():
        values, floor = found.independent, context.noise.floor(key)
        assert floor is not None
        number = len(values)  # of rounds, or of machines
        rows.append(
            (
                *key_values(grid, key.setting, key.framework, key.mode, key.seq_len),
                len(found.log_ratios), math.exp(sum(values) / number), floor.ratio(number),
                context.noise.margin(key, number),
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
