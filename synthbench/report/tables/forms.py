"""What fusing gains: the reference form against the fused form."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from synthbench.analysis.comparison import Comparison, Judgement, judge
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.noise import percentage
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.tables.layout import Row
from synthbench.report.tables.ratios import verdict_text
from synthbench.report.tables.utilisation import share

PLAIN = "form=reference"  # as a setting of the grid says it
OTHERS = ("form=fused", "form=auto")


def form_pairs(grid: Grid) -> dict[str, str]:
    """Each setting of the reference form -> the same setting of the fused form, where there is one.

    Where fused was not asked for by name, auto stands in its place.
    """
    settings = grid.settings()
    found: dict[str, str] = {}
    for setting in settings:
        parts = setting.split(" ")
        if PLAIN not in parts:
            continue
        at = parts.index(PLAIN)
        asked = [" ".join([*parts[:at], other, *parts[at + 1 :]]) for other in OTHERS]
        if there := [other for other in asked if other in settings]:
            found[setting] = there[0]
    return found


def forms(grid: Grid, context: Context) -> Table | None:
    """A row each framework, mode, variant and length: time and memory of reference over fused.

    None for a run that has one form alone.
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
    places = list(_places(grid, pairs))
    found = {fused: grid.compare(fused, plain, "reference", "fused") for _, plain, fused in places}
    compared = {key: one for key, one in found.items() if isinstance(one, Comparison)}
    judged = dict(zip(compared, judge(list(compared.values()), context.noise.margin), strict=True))
    rows: list[Row] = []
    for where, plain, fused in places:
        word = found[fused]
        row: list[Value] = [word] * 4 if isinstance(word, str) else _entry(judged[fused])
        row += [_memory_ratio(grid, plain, fused)]
        row += [share(grid, key, context.ceilings) for key in (plain, fused)]
        rows.append((*where, *row))
    note = (
        "time: seconds of a step in the reference form over those in the fused form, in the same "
        "round: above 1, fused is faster; geometric mean of the rounds with its 95% interval and "
        f"a verdict on the fused form, margin {percentage(context.noise.margin)}, as in `ratios`: "
        "with one round the interval is that of the samples inside it alone, and too narrow. "
        "memory: peak of reference over that of fused. util %: share of the device's best "
        "matrix-product rate, as in `utilisation`."
    )
    title = "What fusing buys: the reference form over the fused form"
    return Table("forms", title, note, context.shared, tuple(columns), rows)


def _places(grid: Grid, pairs: dict[str, str]) -> Iterator[tuple[Row, Key, Key]]:
    """The key values of each row, its cell in the reference form, and that in the other."""
    for plain, fused in pairs.items():
        for framework, mode in grid.pairs(plain):
            for variant in grid.variants(plain):
                for length in grid.lengths(plain):
                    key = Key(plain, variant, framework, mode, length)
                    other = " ".join(part for part in plain.split(" ") if part != PLAIN)
                    where: Row = (framework, mode, variant, length)
                    where = (other, *where) if other else where
                    yield where, key, key._replace(setting=fused)


def _entry(judgement: Judgement) -> list[Value]:
    low, high = judgement.estimate.interval()
    return [judgement.estimate.ratio, low, high, verdict_text(judgement)]


def _memory_ratio(grid: Grid, plain: Key, fused: Key) -> Value:
    found = grid.compare(fused, plain, "reference", "fused", cost="peak_bytes")
    return found if isinstance(found, str) else math.exp(np.mean(found.log_ratios))
