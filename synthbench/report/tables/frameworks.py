"""The speed of JAX compared with PyTorch."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_mode


def frameworks(grid: Grid, context: Context) -> Table:
    """One row per mode and variant: the step time in torch over that in jax, by length."""
    columns = key_columns(grid, "mode", "variant")
    columns += [Column(f"L={length}", "ratio") for length in grid.lengths()]
    rows: list[Row] = []
    for setting, mode, variant in rows_by_mode(grid):
        cells = [Key(setting, variant, "jax", mode, n) for n in grid.lengths()]
        ratios = [
            grid.speed_ratio(key, key._replace(framework="torch"), "torch", "jax") for key in cells
        ]
        rows.append((*key_values(grid, setting, mode, variant), *ratios))
    note = f"Step time in torch over step time in jax: above 1, jax is faster. {_compared(grid)}"
    if len(grid.frameworks()) < 2:
        note, rows = f"This run has only {' '.join(grid.frameworks()) or 'no framework'}.", []
    title = "torch against jax: ratio of step times"
    return Table("frameworks", title, note, context.shared, tuple(columns), rows)


def _compared(grid: Grid) -> str:
    """Whether each framework ran eagerly or compiled, so that the reader knows what is compared."""
    modes = {(record.cell.framework, record.cell.compile) for record in grid.records}
    if "compile" in grid.setting_fields:
        return "Eager or compiled as the setting says."
    return f"Compared are {' and '.join(f'{f} {mode}' for f, mode in sorted(modes, reverse=True))}."
