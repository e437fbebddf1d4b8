"""After how many steps compiling pays off."""

from __future__ import annotations

import math

from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Value

ONCE = ("compile_seconds", "first_step_seconds")
NEVER = "never"  # a compiled step is no faster
EAGER = "eager"  # this cell is what the compiled ones are compared with
NO_EAGER = "no eager cell"


def has_pairs(grid: Grid) -> bool:
    """Whether the run has both eager and compiled cells."""
    return "compile" in grid.setting_fields


def break_even(grid: Grid, key: Key) -> Value:
    """The number of steps after which a compiled cell has taken less time than the eager one.

    Compilation and first step are paid once; each further step saves the difference.
    """
    row = grid.cell(key)
    if row is None or grid.missing(key):
        return grid.missing(key) or NO_EAGER
    if row["compile"] == "eager":
        return EAGER
    eager = key._replace(setting=key.setting.replace(f"compile={row['compile']}", "compile=eager"))
    if grid.cell(eager) is None or grid.missing(eager):
        return NO_EAGER
    names = (*ONCE, "median_seconds")
    compiled = [value for name in names if not isinstance(value := grid.value(key, name), str)]
    eagerly = [value for name in names if not isinstance(value := grid.value(eager, name), str)]
    if len(compiled) != len(names) or len(eagerly) != len(names):
        return NO_EAGER
    extra = sum(compiled[:2]) - sum(eagerly[:2])
    saved = eagerly[2] - compiled[2]
    if saved <= 0:
        return NEVER  # also where its first step was cheaper: each further one loses some of that
    return 1 + max(math.ceil(extra / saved), 0)
