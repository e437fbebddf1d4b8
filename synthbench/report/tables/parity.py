"""The errors found by the parity check before timing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row

PASSED = "passed"
NOT_CHECKED = "not checked"


class Check(NamedTuple):
    """The check of a variant in a framework, over all its cells; `errors`: also in words."""

    setting: str
    variant: str
    framework: str
    errors: Row
    verdict: str


def parity(grid: Grid, context: Context) -> Table:
    """One row per variant and framework: the largest errors and their tolerances."""
    checks = checks_of(grid, context)
    has_settings = any(check.setting for check in checks)
    labels = ["setting"] * has_settings + ["variant", "framework"]
    columns = [Column(label, is_key=True) for label in labels]
    columns += [Column("error", "parity_forward", "forward")]
    columns += [Column("tolerance", "parity_tolerance", "forward")]
    columns += [Column("error", "parity_gradient", "gradient")]
    columns += [Column("tolerance", "parity_gradient_tolerance", "gradient")]
    columns += [Column("against"), Column("verdict")]
    rows: list[Row] = [
        (*(one.setting,) * has_settings, one.variant, one.framework, *one.errors, one.verdict)
        for one in checks
    ]
    note = (
        "The largest error of all cells, on a small input. forward: relative to the largest value. "
        "gradient: relative to the norm of the gradient, along a random direction for each "
        "parameter. A cell whose error is above its tolerance is quarantined and not timed."
    )
    title = "Parity check against the NumPy reference, before timing"
    return Table("parity", title, note, context.shared, tuple(columns), rows)


def checks_of(grid: Grid, context: Context) -> list[Check]:
    """The check of each variant in each framework. Trainings with other seeds share it."""
    settings = grid.settings_without("seed")
    by_check: dict[tuple[str, str, str], list[Key]] = {
        (settings[setting], variant, framework): []
        for setting in grid.settings()
        for variant in grid.variants(setting)
        for framework in grid.frameworks(setting)
    }
    for key in grid.keys:
        by_check[settings[key.setting], key.variant, key.framework].append(key)
    broken = _broken(grid) if context.checks_parity else set()
    return [Check(*place, *_errors(grid, keys, broken)) for place, keys in by_check.items()]


def _broken(grid: Grid) -> set[str]:
    """The ids of cells whose check found no errors to show: it crashed, or refused the output."""
    columns = (grid.column(name) for name in ("id", "outcome", "parity_passed"))
    return {
        cell_id
        for cell_id, outcome, passed in zip(*columns, strict=True)
        if outcome == "quarantined" and passed is None
    }


def _is_infinite(row: Mapping[str, Any]) -> bool:
    """Whether a check failed with an infinite error, which JSON, and so a stored record, lacks."""
    failed = not row["parity_passed"] and not row["parity_against"].startswith("none")
    return failed and row["parity_forward"] != row["parity_forward"]


def _errors(grid: Grid, keys: Sequence[Key], broken: Collection[str]) -> tuple[Row, str]:
    """Forward and gradient error with tolerances, what they are measured against; the verdict."""
    rows = [row for key in keys if (row := grid.cell(key)) is not None]
    checked = [row for row in rows if row["parity_against"]]
    failed = {row["id"] for row in checked if not row["parity_passed"]}
    failed |= {row["id"] for row in rows if row["id"] in broken}
    count = len({row["id"] for row in checked} | failed)
    verdict = f"FAILED in {len(failed)} of {count} cells" if failed else PASSED
    if not checked:
        outcomes = [outcome for key in keys if (outcome := grid.missing(key))]
        words: Row = (outcomes[0] if outcomes else NOT_CHECKED,) * 5
        return words, verdict if failed else NOT_CHECKED
    numbers: list[Value] = []
    for name in ("forward", "tolerance", "gradient", "gradient_tolerance"):
        found = [float(row[f"parity_{name}"]) for row in checked]
        if name == "forward" and any(map(_is_infinite, checked)):
            found.append(math.inf)
        known = [value for value in found if value == value]  # not NaN
        numbers.append(max(known) if known else "no reference")
    against = "; ".join(sorted({row["parity_against"] for row in checked}))
    if numbers[0] == "no reference" and not failed:
        verdict = NOT_CHECKED
    return (*numbers, against.partition(":")[0]), verdict
