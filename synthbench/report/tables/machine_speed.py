"""How much the speed of the machine changed, and what it does to times that are relative to it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kruskal

from synthbench.measure.core_distance import FAR
from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid
from synthbench.report.data.table import Column, Table
from synthbench.report.tables.layout import Row

NAMES = (
    "id", "variant", "median_seconds", "calibration_seconds", "relative_time", "core_distance",
)  # fmt: skip


class _Group(NamedTuple):
    """Measurements with the same product: its threads are those of one of the devices."""

    framework: str
    devices: int
    kind: str  # of the machine; empty unless there are several kinds


def machine_speed(grid: Grid, context: Context) -> Table | None:
    """One row per framework, number of devices and kind of machine; spreads are within machines.

    None where no fixed work was timed between the steps.
    """
    if not grid.has("calibration_seconds"):
        return None
    apart = grid.has("core_distance")
    columns_of_records = map(grid.column, NAMES)
    found: dict[_Group, list[tuple[Any, ...]]] = {}
    for record, *values in zip(grid.latest, *columns_of_records, strict=True):
        if None not in values[:-1]:
            kind = grid.kinds.get(record.machine, "")
            group = _Group(record.cell.framework, record.cell.devices, kind)
            found.setdefault(group, []).append((record.machine, *values))
    rows: list[Row] = []
    groups = [one for name in grid.frameworks() for one in sorted(found) if one.framework == name]
    several = [len({group[at] for group in groups}) > 1 for at in range(len(_Group._fields))]
    for group in groups:
        machines, ids, variants, seconds, fixed, relative, distances = zip(
            *found[group], strict=True
        )
        within = list(zip(machines, ids, strict=True))
        rows.append(
            (
                group.framework,
                *(group[at] for at in (1, 2) if several[at]),
                len(ids), float(np.median(fixed)), spread_within(machines, fixed, alone="one cell"),
                spread_within(within, seconds), spread_within(within, relative),
                by_variant(variants, without_machine(machines, fixed)),
                *((share_far(distances), far_over_near(within, seconds, distances)) if apart
                  else ()),
            )
        )  # fmt: skip
    if not rows:
        return None
    keys = (Column("devices", "exact_count", is_key=True), Column("machine", is_key=True))
    columns: tuple[Column, ...] = (
        Column("framework", is_key=True),
        *(column for column, shown in zip(keys, several[1:], strict=True) if shown),
        Column("measurements", "exact_count"),
        Column("product ms", "calibration_seconds"), Column("its spread %", "time_spread"),
        Column("steps %", "time_spread"), Column("relative %", "time_spread"),
        Column("p by variant", "p_value"),
    )  # fmt: skip
    note = (
        "product: the same matrix product in every cell of a framework, timed between steps; a "
        "tenth of its times are less. its spread: the standard deviation of this, from cell to "
        "cell. steps: that of the median step, from round to round of the same cell; relative: the "
        "same for the step that a tenth are faster than, over the product. Exponents, and ratios "
        "between two processes, use relative times; milliseconds are medians of the steps as they "
        "were. p by variant: of the test by Kruskal and Wallis. If it is small, the product takes "
        "longer after the steps of some variants: then do not trust ratios that differ by less "
        "than its spread."
    )
    if apart:
        columns += (Column("cores far %", "far_share"), Column("far over near", "far_ratio"))
        note += (
            " cores far: of the measurements, those before or after which a core read what the "
            f"other wrote in more than {FAR:g} times the time of what it wrote itself; a "
            "hypervisor had placed them apart. far over near: the median step of such measurements "
            "over that of the others of the same cell, the geometric mean over cells that have "
            "both."
        )
    title = "The speed of the machine during the run"
    return Table("machine_speed", title, note, context.shared, columns, rows)


def share_far(distances: Sequence[float | None]) -> float | str:
    """The share of the known distances that are above FAR; a text where none is known."""
    known = [distance for distance in distances if distance is not None]
    return sum(distance > FAR for distance in known) / len(known) if known else "not known"


def far_over_near(
    groups: Sequence[Hashable], seconds: Sequence[float], distances: Sequence[float | None]
) -> float | str:
    """How many times as long a step takes with far cores, within groups; a text if none has both.

    The geometric mean over groups.
    """
    logs: dict[Hashable, tuple[list[float], list[float]]] = {}
    for group, value, distance in zip(groups, seconds, distances, strict=True):
        if distance is not None:
            logs.setdefault(group, ([], []))[distance > FAR].append(math.log(value))
    differences = [np.mean(far) - np.mean(near) for near, far in logs.values() if near and far]
    return math.exp(float(np.mean(differences))) if differences else "no cell has both"


def without_machine(machines: Sequence[str], values: Sequence[float]) -> list[float]:
    """The values over the median of their machine."""
    by_machine: dict[str, list[float]] = {}
    for machine, value in zip(machines, values, strict=True):
        by_machine.setdefault(machine, []).append(value)
    usual = {machine: float(np.median(own)) for machine, own in by_machine.items()}
    return [value / usual[machine] for machine, value in zip(machines, values, strict=True)]


def spread_within(
    groups: Sequence[Hashable], values: Sequence[float], alone: str = "one round"
) -> float | str:
    """The standard deviation of the logarithms within groups; `alone` where each has one value."""
    by_group: dict[Hashable, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        by_group.setdefault(group, []).append(math.log(value))
    several = [logs for logs in by_group.values() if len(logs) > 1]
    if not several:
        return alone
    squares = sum(float(np.var(logs)) * len(logs) for logs in several)
    return math.sqrt(squares / sum(len(logs) - 1 for logs in several))


def by_variant(variants: Sequence[str], values: Sequence[float]) -> float | str:
    """The p value of no difference between variants; a text where too few were measured."""
    by_name: dict[str, list[float]] = {}
    for variant, value in zip(variants, values, strict=True):
        by_name.setdefault(variant, []).append(value)
    several = [one for one in by_name.values() if len(one) > 1]
    if len(several) < 2 or len(set(values)) < 2:
        return "too few"
    return float(kruskal(*several).pvalue)
