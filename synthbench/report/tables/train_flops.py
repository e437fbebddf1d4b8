"""FLOPs of a train step, counted in several ways."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.count_agreement import (
    XLA,
    disagreements,
    far_off,
    is_jax,
    uncounted,
)
from synthbench.report.tables.layout import Row, at_longest, first_known, key_columns, key_values

COUNTERS = {"torch": "torch counter", "jax": "jaxpr walk"}  # which tool counts a train step


def train_flops(grid: Grid, context: Context) -> Table:
    """One row per variant: each framework's count, compared with three times the formula."""
    frameworks = grid.frameworks()
    columns = [*key_columns(grid, "variant"), Column("3 x formula", "flops")]
    for framework in frameworks:
        columns += [Column(COUNTERS[framework], "flops", framework)]
        columns += [Column("of 3 x formula", "share", framework)]
    columns += [Column("XLA", "flops", "jax")] * ("jax" in frameworks)
    columns += [Column("agreement")]
    rows: list[Row] = []
    for setting in grid.settings():
        if "train" not in grid.modes(setting):
            continue
        for variant in grid.variants(setting):
            keys = [Key(setting, variant, f, "train", grid.longest(setting)) for f in frameworks]
            formula = first_known(grid, keys, "flops")
            expected = formula if isinstance(formula, str) else 3 * formula
            traced = [grid.known(key, "traced_flops") for key in keys]
            compiled = [grid.known(key, "compiler_flops") for key in keys if is_jax(key)]
            flags = disagreements("FLOPs", "the frameworks' own", frameworks, traced)
            for key, count in zip(keys, traced, strict=True):
                flags += far_off(count, compiled) if is_jax(key) else []
                flags += uncounted(grid, key)
            checked = any(not isinstance(count, str) for count in traced)
            verdict = "; ".join(flags) or ("agree" if checked else NOT_MEASURED)
            counts = [value for count in traced for value in (count, _share(count, expected))]
            row = (expected, *counts, *compiled, verdict)
            rows.append((*key_values(grid, setting, variant), *row))
    note = (
        f"At {at_longest(grid)}. A backward pass computes two matrix products for each one of the "
        "forward pass, so a train step has about three times the FLOPs; less, because the "
        f"gradients of inputs and constants are not needed. {XLA}"
    )
    if not rows:
        note = "This run has no cells of mode train."
    title = "FLOPs of a train step"
    return Table("train_flops", title, note, context.shared, tuple(columns), rows)


def _share(count: Value, expected: Value) -> Value:
    """A count over the expected count, or why either is missing."""
    if isinstance(count, str) or isinstance(expected, str):
        return count if isinstance(count, str) else expected
    return count / expected if expected else NOT_MEASURED
