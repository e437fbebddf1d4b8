"""Tables that set ways of counting side by side: cost, and equality with the reference."""

from __future__ import annotations

from collections.abc import Sequence

from synthbench.report.grid import NOT_MEASURED, Grid, Key
from synthbench.report.layout import Row, at_longest, first_known, key_columns, place
from synthbench.report.notes import Context
from synthbench.report.table import Column, Table, Value

LIBRARIES = {"torch": "torch", "jax": "flax"}  # what counts the parameters
COUNTERS = {"torch": "torch counter", "jax": "jaxpr walk"}  # what counts a train step's FLOPs
XLA_TOLERANCE = 0.25
XLA = (
    "XLA's own count is shown, not trusted: it adds elementwise operations, and takes the body of "
    f"a loop once and a foreign call for nothing; it is flagged where it is "
    f"{XLA_TOLERANCE:.0%} off."
)


def cost(grid: Grid, context: Context) -> Table:
    """Parameters and FLOPs of one forward pass, by each way of counting, and what disagrees."""
    frameworks = grid.frameworks()
    columns = [*key_columns(grid, "variant"), Column("declared", "exact_count", "parameters")]
    columns += [Column(LIBRARIES[f], "exact_count", "parameters") for f in frameworks]
    columns += [Column("constants", "exact_count"), Column("formula", "flops", "FLOPs")]
    columns += [Column(f"traced {f}", "flops", "FLOPs") for f in frameworks]
    columns += [Column("XLA", "flops", "FLOPs")] * ("jax" in frameworks)
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
            compiled = [grid.known(key, "compiler_flops") for key in forward if _is_jax(key)]
            flags = [
                *_disagreements("parameters", declared, frameworks, counted),
                *_disagreements("FLOPs", formula, frameworks, traced),
                *_far_off(formula, compiled),
                *(flag for key in forward for flag in _uncounted(grid, key)),
            ]
            checked = any(not isinstance(value, str) for value in (*counted, *traced))
            verdict = "; ".join(flags) or ("agree" if checked else NOT_MEASURED)
            row = (declared, *counted, constants, formula, *traced, *compiled, verdict)
            rows.append((*place(grid, setting, variant), *row))
    note = (
        f"At {at_longest(grid)}. FLOPs of one forward pass, 2 a multiply-accumulate. Constants are "
        "stored, never trained, and counted apart from the parameters. "
    ) + XLA
    return Table("cost", "Parameters and FLOPs", note, context.shared, tuple(columns), rows)


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
            compiled = [grid.known(key, "compiler_flops") for key in keys if _is_jax(key)]
            flags = _disagreements("FLOPs", "the frameworks' own", frameworks, traced)
            for key, count in zip(keys, traced, strict=True):
                flags += _far_off(count, compiled) if _is_jax(key) else []
                flags += _uncounted(grid, key)
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


def _far_off(expected: Value, compiled: Sequence[Value]) -> list[str]:
    """XLA's count, where it is further from the products than elementwise work would bring it."""
    return [
        f"XLA {_excess(count, expected)}"
        for count in compiled
        if not isinstance(count, str)
        and not isinstance(expected, str)
        and abs(count - expected) > XLA_TOLERANCE * expected
    ]


def _share(count: Value, expected: Value) -> Value:
    """A count over what is expected of it, or the word that stands in place of either."""
    if isinstance(count, str) or isinstance(expected, str):
        return count if isinstance(count, str) else expected
    return count / expected if expected else NOT_MEASURED


def _is_jax(key: Key) -> bool:
    return key.framework == "jax"


def _uncounted(grid: Grid, key: Key) -> list[str]:
    """Operations that no counter knew in this cell, then those met only in shorter ones."""
    flags: list[str] = []
    known: set[str] = set()
    for length in sorted(grid.lengths(key.setting), reverse=True):
        met = (grid.cell(key._replace(seq_len=length)) or {}).get("uncounted")
        names = met if isinstance(met, dict) else {}
        new = sorted(names.keys() - known)
        known |= names.keys()
        if new:
            where = "" if length == key.seq_len else f" at length {length}"
            listed = ", ".join(f"{name} ({names[name]})" for name in new)
            flags.append(f"{key.framework} did not count {listed}{where}")
    return flags
