"""The errors found by the parity check before timing."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row, key_columns, key_values


def parity(grid: Grid, context: Context) -> Table:
    """One row per variant and framework: the largest errors and their tolerances."""
    columns = key_columns(grid, "variant", "framework")
    columns += [Column("error", "parity_forward", "forward")]
    columns += [Column("tolerance", "parity_tolerance", "forward")]
    columns += [Column("error", "parity_gradient", "gradient")]
    columns += [Column("tolerance", "parity_gradient_tolerance", "gradient")]
    columns += [Column("against"), Column("verdict")]
    rows: list[Row] = []
    by_row: dict[tuple[str, str, str], list[Key]] = {}
    for key in grid.keys:
        by_row.setdefault((key.setting, key.variant, key.framework), []).append(key)
    for setting in grid.settings():
        for variant in grid.variants(setting):
            for framework in grid.frameworks(setting):
                keys = by_row.get((setting, variant, framework), [])
                rows.append((*key_values(grid, setting, variant, framework), *_errors(grid, keys)))
    note = (
        "The largest error of all cells, on a small input. forward: relative to the largest value. "
        "gradient: relative to the norm of the gradient, along a random direction for each "
        "parameter. A cell whose error is above its tolerance is quarantined and not timed."
    )
    title = "Parity check against the NumPy reference, before timing"
    return Table("parity", title, note, context.shared, tuple(columns), rows)


def _errors(grid: Grid, keys: Sequence[Key]) -> Row:
    """Forward and gradient error with tolerances, what they are measured against, the verdict."""
    checked = [row for key in keys if (row := grid.cell(key)) and row["parity_passed"] is not None]
    checked = [row for row in checked if isinstance(row["parity_against"], str)]
    if not checked:
        outcomes = [outcome for key in keys if (outcome := grid.missing(key))]
        return (*[outcomes[0] if outcomes else "not checked"] * 5, "not checked")
    numbers: list[Value] = []
    for name in ("forward", "tolerance", "gradient", "gradient_tolerance"):
        found = [float(row[f"parity_{name}"]) for row in checked]
        known = [value for value in found if value == value]  # not NaN
        numbers.append(max(known) if known else "no reference")
    against = "; ".join(sorted({row["parity_against"] for row in checked}))
    failed = sum(not row["parity_passed"] for row in checked)
    verdict = f"FAILED in {failed} of {len(checked)} cells" if failed else "passed"
    if numbers[0] == "no reference":
        verdict = "not checked"
    return (*numbers, against.partition(":")[0], verdict)
