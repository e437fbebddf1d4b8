"""The errors of the parity check that precedes timing."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row, key_columns, place


def parity(grid: Grid, context: Context) -> Table:
    """The largest errors of the check that precedes timing, with the tolerance."""
    columns = key_columns(grid, "variant", "framework")
    columns += [Column("error", "relative_error", "forward")]
    columns += [Column("tolerance", "relative_error", "forward")]
    columns += [Column("error", "relative_error", "gradient")]
    columns += [Column("tolerance", "relative_error", "gradient")]
    columns += [Column("against"), Column("verdict")]
    rows: list[Row] = []
    for setting in grid.settings():
        for variant in grid.variants(setting):
            for framework in grid.frameworks(setting):
                keys = [
                    key
                    for key in grid.keys
                    if (key.setting, key.variant, key.framework) == (setting, variant, framework)
                ]
                rows.append((*place(grid, setting, variant, framework), *_errors(grid, keys)))
    note = (
        "The largest error over all cells, on a small input. Forward: relative to the largest "
        "value; gradient: relative to the gradient's norm, along a random direction of each "
        "parameter. A cell over its tolerance is quarantined, not timed."
    )
    title = "Equality with the NumPy reference, checked before timing"
    return Table("parity", title, note, context.shared, tuple(columns), rows)


def _errors(grid: Grid, keys: Sequence[Key]) -> Row:
    """Forward and gradient error with tolerances, what they are against, the verdict."""
    checked = [row for key in keys if (row := grid.cell(key)) and row["parity_passed"] is not None]
    checked = [row for row in checked if isinstance(row["parity_against"], str)]
    if not checked:
        words = [word for key in keys if (word := grid.missing(key))]
        return (*[words[0] if words else "not checked"] * 5, "not checked")
    numbers: list[Value] = []
    for name in ("forward", "tolerance", "gradient", "gradient_tolerance"):
        found = [float(row[f"parity_{name}"]) for row in checked]
        known = [value for value in found if value == value]  # a NaN is no number
        numbers.append(max(known) if known else "no reference")
    against = "; ".join(sorted({row["parity_against"] for row in checked}))
    failed = sum(not row["parity_passed"] for row in checked)
    verdict = f"FAILED in {failed} of {len(checked)} cells" if failed else "passed"
    if numbers[0] == "no reference":
        verdict = "not checked"
    return (*numbers, against.partition(":")[0], verdict)
