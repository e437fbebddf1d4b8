"""The noise floor of each group of cells: the baseline against its A/A twin."""

from __future__ import annotations

import math

from synthbench.analysis.outlying_rounds import FEWEST_ROUNDS, FURTHEST, SHARE_ALIKE
from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid, Key, group_of
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table, metric_column
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
    columns += [metric_column("twin_ratio"), metric_column("noise_ratio")]
    columns += [Column("margin", "noise_ratio")]
    some_aside = any(aside for aside, _ in grid.set_aside.values())
    if some_aside:
        columns += [Column("set aside")]
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
                *[_set_aside(grid, key)] * some_aside,
            )
        )  # fmt: skip
    note = (
        "A/A ratio: the speed of the A/A twin, the same program measured twice, over that of "
        f"{context.baseline}. noise floor: another such ratio, or one over it, is below this in 95 "
        "of 100 cases; a framework's groups share what they know. margin: the larger of the noise "
        f"floor and the suite's margin of {percentage(1 + context.noise.declared)}; a verdict "
        "`faster` or `slower` needs a larger ratio."
    )
    if some_aside:
        note += (
            " set aside: of so many processes, those whose time is improbable among the other "
            f"rounds of their cell (of {FEWEST_ROUNDS} or more, {SHARE_ALIKE:.0%} of which agree): "
            f"further than {FURTHEST:g} standard deviations of the usual process, and further than "
            "those rounds let expect. Ratios and verdicts are without them; medians are not."
        )
    title = "Noise: the baseline against itself"
    return Table("noise", title, note, context.shared, tuple(columns), rows)


def _set_aside(grid: Grid, key: Key) -> str:
    """How many processes of the group were set aside, and of how many."""
    known = grid.set_aside.get(group_of(key))
    return NOT_MEASURED if known is None else "{} of {}".format(*known)
