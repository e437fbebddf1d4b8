"""PyTorch against JAX."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row, key_columns, place, rows_by_mode


def frameworks(grid: Grid, context: Context) -> Table:
    """PyTorch's time over JAX's, by length."""
    columns = key_columns(grid, "mode", "variant")
    columns += [Column(f"L={length}", "ratio") for length in grid.lengths()]
    rows: list[Row] = []
    for setting, mode, variant in rows_by_mode(grid):
        cells = [Key(setting, variant, "jax", mode, n) for n in grid.lengths()]
        ratios = [
            grid.speed_ratio(key, key._replace(framework="torch"), "torch", "jax") for key in cells
        ]
        rows.append((*place(grid, setting, mode, variant), *ratios))
    note = (
        "Seconds a step takes in torch over those in jax: above 1, jax is faster. "
        f"{_ways_of_running(grid)}"
    )
    if len(grid.frameworks()) < 2:
        note, rows = f"This run has {' '.join(grid.frameworks()) or 'no framework'} alone.", []
    title = "torch against jax: ratio of times"
    return Table("frameworks", title, note, context.shared, tuple(columns), rows)


def _ways_of_running(grid: Grid) -> str:
    """How each framework is run, so that a ratio between them says what it compares."""
    ways = {(record.cell.framework, record.cell.compile) for record in grid.records}
    if "compile" in grid.setting_fields:
        return "Both as the setting says."
    return f"Compared are {' and '.join(f'{f} {way}' for f, way in sorted(ways, reverse=True))}."
