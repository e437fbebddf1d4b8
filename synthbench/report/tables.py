"""The tables of a run, built from its records alone; the same records give the same tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from synthbench.report.audits import cost, parity, train_flops
from synthbench.report.break_even import break_even, has_pairs
from synthbench.report.disturbed import warnings
from synthbench.report.forms import choices, forms
from synthbench.report.grid import Grid, Key
from synthbench.report.layout import Row, at_longest, by_length, first_known, key_columns, place
from synthbench.report.memory import memory_parts
from synthbench.report.notes import Context, context_of, variant_order
from synthbench.report.ratios import TWIN, ratios
from synthbench.report.scaling import scaling
from synthbench.report.table import Column, Table, Value, metric_column
from synthbench.report.utilisation import utilisation
from synthbench.store import Run

MB = "MB are 10^6 bytes; the peak holds parameters, optimizer, batch and what one step adds."
MODES = {
    "train": "A train step (forward, cross-entropy, backward, Adam)",
    "forward": "A forward pass",
}
PHASES = ("build_seconds", "compile_seconds", "first_step_seconds", "median_seconds")


def make_tables(run: Run) -> list[Table]:
    """Every table of a run, in the order in which they are shown; those it has nothing for not."""
    grid = Grid(run.records, variant_order(run.info))
    context = context_of(run, grid)
    made = [make(grid, context) for make in TABLES.values()]
    return [table for table in made if table is not None]


def summary(grid: Grid, context: Context, *, mode: str) -> Table:
    """A row a variant, at the longest length: cost, then speed, ratio to the baseline, memory."""
    frameworks, baseline = grid.frameworks(), context.baseline
    has_baseline = any(baseline in grid.variants(setting) for setting in grid.settings())
    columns = key_columns(grid, "variant")
    columns += [metric_column(metric, is_key=True) for metric in ("parameters", "flops")]
    for framework in frameworks:
        columns += [metric_column("steps_per_second", framework)]
        columns += [Column(f"x {baseline}", "ratio", framework)] * has_baseline
        columns += [metric_column("peak_bytes", framework)]
    rows: list[Row] = []
    for setting in grid.settings():
        if mode not in grid.modes(setting):
            continue
        for variant in grid.variants(setting):
            longest = grid.longest(setting)
            cells = [Key(setting, variant, framework, mode, longest) for framework in frameworks]
            row: list[Value] = [first_known(grid, cells, "declared_parameters")]
            row += [first_known(grid, cells, "flops")]
            for key in cells:
                row += [grid.value(key, "steps_per_second")]
                if has_baseline:
                    row += [grid.speed_ratio(key, key._replace(variant=baseline), baseline)]
                row += [grid.value(key, "peak_bytes")]
            rows.append((*place(grid, setting, variant), *row))
    ratio = f"x {baseline}: steps per second over those of {baseline}, above 1 is faster. "
    note = f"{ratio if has_baseline else ''}FLOPs: one forward pass, by formula. {MB}"
    title = f"{MODES[mode]}: every variant at {at_longest(grid)}"
    if not rows:
        note = f"This run has no cells of mode {mode}."
    return Table(mode, title, note, context.shared, tuple(columns), rows)


def speed(grid: Grid, context: Context) -> Table:
    """Steps per second by length, with the half width of the interval."""
    note = "±% is half of the 95% interval of the median time of a step, in percent of it."
    metrics = ("steps_per_second", "half_width_percent")
    return by_length(grid, context, "speed", "Steps per second by length", note, metrics)


def memory(grid: Grid, context: Context) -> Table:
    """Peak memory by length."""
    title = "Peak memory by length"
    return by_length(grid, context, "memory", title, MB, ["peak_bytes"])


def frameworks(grid: Grid, context: Context) -> Table:
    """PyTorch's time over JAX's, by length."""
    columns = key_columns(grid, "mode", "variant")
    columns += [Column(f"L={length}", "ratio") for length in grid.lengths()]
    rows: list[Row] = []
    for setting in grid.settings():
        for mode in grid.modes(setting):
            for variant in grid.variants(setting):
                cells = [Key(setting, variant, "jax", mode, n) for n in grid.lengths()]
                ratios = [
                    grid.speed_ratio(key, key._replace(framework="torch"), "torch", "jax")
                    for key in cells
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


def phases(grid: Grid, context: Context) -> Table:
    """Build, compile, first step and steady state at the longest length."""
    columns = key_columns(grid, "mode", "variant")
    paired = has_pairs(grid)
    for framework in grid.frameworks():
        columns += [metric_column(phase, framework) for phase in PHASES]
        columns += [metric_column("break_even_steps", framework)] * paired
    rows: list[Row] = []
    for setting in grid.settings():
        for mode in grid.modes(setting):
            for variant in grid.variants(setting):
                length = grid.longest(setting)
                cells = [Key(setting, variant, f, mode, length) for f in grid.frameworks()]
                values: list[Value] = []
                for key in cells:
                    values += [grid.value(key, phase) for phase in PHASES]
                    values += [break_even(grid, key)] * paired
                rows.append((*place(grid, setting, mode, variant), *values))
    note = f"Milliseconds, at {at_longest(grid)}. steady is the median step after warm-up."
    if paired:
        note += (
            " break-even: steps after which compiling has paid, compile and first step against "
            "what each step then saves."
        )
    title = "Build, compile, first step, steady state"
    return Table("phases", title, note, context.shared, tuple(columns), rows)


def _ways_of_running(grid: Grid) -> str:
    """How each framework is run, so that a ratio between them says what it compares."""
    ways = {(record.cell.framework, record.cell.compile) for record in grid.records}
    if "compile" in grid.setting_fields:
        return "Both as the setting says."
    return f"Compared are {' and '.join(f'{f} {way}' for f, way in sorted(ways, reverse=True))}."


def outcomes(grid: Grid, context: Context) -> Table:
    """Every cell without numbers, and why."""
    columns = key_columns(grid, "variant", "framework", "mode")
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [Column("outcome"), Column("rounds"), Column("reason")]
    rows: list[Row] = []
    for key in grid.keys:
        word, row = grid.missing(key), grid.cell(key)
        if word is None:
            continue
        reason, rounds = "no record yet", "0"
        if row is not None:
            own = grid.rounds[grid.rounds["id"] == row["id"]]
            rounds = f"{(own['outcome'] == row['outcome']).sum()} of {len(own)}"
            reason = " ".join(str(row["reason"]).split()) or "none given"
        variant = f"{key.variant} {TWIN}" if key.replica else key.variant
        where = place(grid, key.setting, variant, key.framework, key.mode, key.seq_len)
        rows.append((*where, word, rounds, reason))
    total = len(grid.keys)
    note = f"{len(rows)} of {total} cells have no numbers." if rows else f"All {total} cells ok."
    title = "Cells without numbers"
    return Table("outcomes", title, note, context.shared, tuple(columns), rows)


TABLES: dict[str, Callable[[Grid, Context], Table | None]] = {
    "train": partial(summary, mode="train"),
    "forward": partial(summary, mode="forward"),
    "ratios": ratios,
    "forms": forms,
    "speed": speed,
    "utilisation": utilisation,
    "memory": memory,
    "memory_parts": memory_parts,
    "scaling": scaling,
    "cost": cost,
    "train_flops": train_flops,
    "frameworks": frameworks,
    "parity": parity,
    "choices": choices,
    "phases": phases,
    "warnings": warnings,
    "outcomes": outcomes,
}
