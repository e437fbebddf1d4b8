"""Tables that set ways of counting side by side: cost, and equality with the reference."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.grid import NOT_MEASURED, Grid, Key
from synthbench.report.layout import Row, at_longest, first_known, key_columns, place
from synthbench.report.notes import Context
from synthbench.report.table import Column, Table, Value

LIBRARIES = {"torch": "torch", "jax": "flax"}  # what counts the parameters


def cost(grid: Grid, context: Context) -> Table:
    """Parameters and FLOPs of one forward pass, by each way of counting, and what disagrees."""
    frameworks = grid.frameworks()
    columns = [*key_columns(grid, "variant"), Column("declared", "exact_count", "parameters")]
    columns += [Column(LIBRARIES[f], "exact_count", "parameters") for f in frameworks]
    columns += [Column("constants", "exact_count"), Column("formula", "flops", "FLOPs")]
    columns += [Column(f"traced {f}", "flops", "FLOPs") for f in frameworks]
    columns += [Column("agreement")]
    rows: list[Row] = []
    for setting in grid.settings():
        for variant in grid.variants(setting):
            forward = [
                Key(setting, variant, f, "forward", grid.longest(setting)) for f in frameworks
            ]
            both = {key: [key, key._replace(mode="train")] for key in forward}
            any_mode = [key for keys in both.values() for key in keys]
            declared = first_known(grid, any_mode, "declared_parameters")
            counted = [first_known(grid, both[key], "parameters") for key in forward]
            constants = first_known(grid, any_mode, "constants")
            formula = first_known(grid, any_mode, "flops")
            traced = [grid.known(key, "traced_flops") for key in forward]
            flags = [
                *_disagreements("parameters", declared, frameworks, counted),
                *_disagreements("FLOPs", formula, frameworks, traced),
                *_uncounted(grid, forward),
            ]
            checked = any(not isinstance(value, str) for value in (*counted, *traced))
            verdict = "; ".join(flags) or ("agree" if checked else NOT_MEASURED)
            row = (declared, *counted, constants, formula, *traced, verdict)
            rows.append((*place(grid, setting, variant), *row))
    note = (
        f"At {at_longest(grid)}. FLOPs of one forward pass, 2 a multiply-accumulate. Constants are "
        "stored, never trained, and counted apart from the parameters."
    )
    return Table("cost", "Parameters and FLOPs", note, context.shared, tuple(columns), rows)


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


def _disagreements(
    what: str, expected: Value, frameworks: Sequence[str], counted: Sequence[Value]
) -> list[str]:
    """What does not equal the declaration or formula; without one, whether they differ."""
    numbers = {f: v for f, v in zip(frameworks, counted, strict=True) if not isinstance(v, str)}
    if isinstance(expected, str):
        differ = len(set(numbers.values())) > 1
        return [f"{what}: {' and '.join(numbers)} differ"] if differ else []
    return [
        f"{what}: {framework} {_excess(value, expected)}"
        for framework, value in numbers.items()
        if value != expected
    ]


def _excess(value: float, expected: float) -> str:
    return f"{100 * (value / expected - 1):+.4g}%" if expected else f"{value} instead of 0"


def _uncounted(grid: Grid, keys: Sequence[Key]) -> list[str]:
    flags = []
    for key in keys:
        met = (grid.cell(key) or {}).get("uncounted")
        if isinstance(met, dict) and met:
            names = ", ".join(f"{name} ({times})" for name, times in sorted(met.items()))
            flags.append(f"{key.framework} did not count {names}")
    return flags
