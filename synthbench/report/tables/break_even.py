"""After how many steps compiling has paid."""

from __future__ import annotations

import math

from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Value

ONCE = ("compile_seconds", "first_step_seconds")
NEVER = "never"  # a compiled step is no faster
EAGER = "eager"  # the row that others are compared with
NO_EAGER = "no eager cell"


def has_pairs(grid: Grid) -> bool:
    """Whether any cell of the run was measured both eager and compiled."""
    return "compile" in grid.setting_fields


def break_even(grid: Grid, key: Key) -> Value:
    """Steps after which a compiled cell has cost less than the same cell run eagerly.

    What is paid once (compile and first step) against what each further step saves.
    """
    row = grid.cell(key)
    if row is None or grid.missing(key):
        return grid.missing(key) or NO_EAGER
    if row["compile"] == "eager":
        return EAGER
    eager = key._replace(setting=key.setting.replace("compile=compiled", "compile=eager"))
    if grid.cell(eager) is None or grid.missing(eager):
        return NO_EAGER
    paid = [grid.value(key, name) for name in ONCE]
    spared = [grid.value(eager, name) for name in ONCE]
    own, other = grid.value(key, "median_seconds"), grid.value(eager, "median_seconds")
    numbers = [value for value in (*paid, *spared, own, other) if not isinstance(value, str)]
    if len(numbers) != 6:
        return NO_EAGER
    extra = sum(numbers[:2]) - sum(numbers[2:4])
    saved = numbers[5] - numbers[4]
    if extra <= 0:
        return 1
    return 1 + math.ceil(extra / saved) if saved > 0 else NEVER
