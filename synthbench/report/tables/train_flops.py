"""FLOPs of a train step, by each way of counting."""

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
from synthbench.report.tables.layout import Row, at_longest, first_known, key_columns, place

COUNTERS = {"torch": "torch counter", "jax": "jaxpr walk"}  # what counts a train step's FLOPs


def train_flops(grid: Grid, context: Context) -> Table:
    """FLOPs of a train step by each framework's counter, beside three times the formula."""
    frameworks = grid.frameworks()
    columns = [*key_columns(grid, "variant"), Column("3 x formula", "flops")]
    for framework in frameworks:
        columns += [Column(COUNTERS[framework], "flops", framework)]
        columns += [Column("of 3 x", "share", framework)]
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
            rows.append((*place(grid, setting, variant), *row))
    note = (
        f"At {at_longest(grid)}. A backward pass makes two products for each of the forward pass, "
        "three in all, less those whose gradient nothing needs: that of the inputs, that of "
        f"constants. {XLA}"
    )
    if not rows:
        note = "This run has no cells of mode train."
    title = "FLOPs of a train step, as counted from the programs"
    return Table("train_flops", title, note, context.shared, tuple(columns), rows)


def _share(count: Value, expected: Value) -> Value:
    """A count over what is expected of it, or the word that stands in place of either."""
    if isinstance(count, str) or isinstance(expected, str):
        return count if isinstance(count, str) else expected
    return count / expected if expected else NOT_MEASURED
