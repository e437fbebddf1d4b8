"""What fusing gains: the fused form compared with the reference form."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from synthbench.analysis.comparison import Comparison, Judgement
from synthbench.backends.kernel_record import REFERENCE_KERNEL
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.data.verdicts import judge_all
from synthbench.report.tables.layout import Row, rows_by_pair
from synthbench.report.tables.ratios import verdict_text
from synthbench.report.tables.utilisation import share

REFERENCE = "form=reference"  # a part of the grid's setting
OTHERS = ("form=fused", "form=auto")
SAME_PROGRAM = "same program"  # the kernel of the fused form is the reference form


def form_pairs(grid: Grid) -> dict[str, str]:
    """The settings of the reference form -> the same setting in the fused form, if the run has it.

    A run without the form `fused` is compared in the form `auto`.
    """
    settings = grid.settings()
    found: dict[str, str] = {}
    for setting in settings:
        parts = setting.split(" ")
        if REFERENCE not in parts:
            continue
        at = parts.index(REFERENCE)
        wanted = [" ".join([*parts[:at], other, *parts[at + 1 :]]) for other in OTHERS]
        if present := [other for other in wanted if other in settings]:
            found[setting] = present[0]
    return found


def forms(grid: Grid, context: Context) -> Table | None:
    """One row per framework, mode, variant and length: time and memory of reference over fused.

    None for a run with only one form.
    """
    pairs = form_pairs(grid)
    if not pairs:
        return None
    others = [name for name in grid.setting_fields if name != "form"]
    keys = [*["setting"] * bool(others), "framework", "mode", "variant"]
    columns = [Column(label, is_key=True) for label in keys]
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [Column(label, "ratio", "time") for label in ("ratio", "low", "high")]
    columns += [Column("verdict", group="time"), Column("ratio", "ratio", "memory")]
    columns += [Column(label, "utilisation", "util %") for label in ("reference", "fused")]
    pairs_of_cells = list(_pairs_of_cells(grid, pairs))
    found = {
        fused: grid.compare(fused, reference, "reference", "fused")
        for _, reference, fused in pairs_of_cells
    }
    compared = {key: one for key, one in found.items() if isinstance(one, Comparison)}
    judged = dict(zip(compared, judge_all(compared, context.noise), strict=True))
    rows: list[Row] = []
    for key_cells, reference, fused in pairs_of_cells:
        one = found[fused]
        row: list[Value] = [one] * 4 if isinstance(one, str) else _entry(judged[fused])
        if isinstance(one, Comparison) and _is_plain(grid, fused):
            row[-1] = SAME_PROGRAM
        row += [_memory_ratio(grid, reference, fused)]
        row += [
            share(grid, key, context.ceilings_of(grid.machine(key))) for key in (reference, fused)
        ]
        rows.append((*key_cells, *row))
    note = (
        "time: step time in the reference form over step time in the fused form, taken within a "
        "round, and within a process where both forms were timed in turn there (`paired: form`); "
        "above 1, fused is faster. Geometric mean of the rounds with its 95% confidence "
        "interval and a verdict on the fused form, as in `ratios`. With one round, the interval "
        "comes only from the samples within that round and is too narrow. "
        f"`{SAME_PROGRAM}`: the kernel chosen for the fused form is the reference form, so its "
        "ratio differs from 1 only by noise. memory: peak memory of "
        "reference over fused. util %: share of the device's best matrix-product rate, as in "
        "`utilisation`."
    )
    title = "What fusing gains: the fused form against the reference form"
    return Table("forms", title, note, context.shared, tuple(columns), rows)


def _pairs_of_cells(grid: Grid, pairs: dict[str, str]) -> Iterator[tuple[Row, Key, Key]]:
    """The key values of each row, its cell in the reference form, and its cell in the other."""
    for setting, framework, mode, variant in rows_by_pair(grid):
        if setting not in pairs:
            continue
        others = " ".join(part for part in setting.split(" ") if part != REFERENCE)
        for length in grid.lengths(setting):
            key = Key(setting, variant, framework, mode, length)
            values: Row = (framework, mode, variant, length)
            yield (others, *values) if others else values, key, key._replace(setting=pairs[setting])


def _entry(judgement: Judgement) -> list[Value]:
    low, high = judgement.estimate.interval()
    return [judgement.estimate.ratio, low, high, verdict_text(judgement)]


def _is_plain(grid: Grid, fused: Key) -> bool:
    row = grid.cell(fused)
    return row is not None and row["kernels"] == REFERENCE_KERNEL


def _memory_ratio(grid: Grid, reference: Key, fused: Key) -> Value:
    found = grid.compare(fused, reference, "reference", "fused", cost="peak_bytes")
    return found if isinstance(found, str) else math.exp(np.mean(found.independent))
