"""A step alone, a step with a full queue, its time on the device, and its energy."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.table import Column, Table, Value, metric_column
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair, why_missing

SHOWN = (
    "median_seconds", "queued_seconds", "device_seconds", "device_share", "joules", "watts",
    "sm_megahertz",
)  # fmt: skip
LAUNCH_BOUND = 0.7  # a device that works for less of a step than this share waits for Python


def throughput(grid: Grid, context: Context) -> Table | None:
    """One row per cell; None where no step was measured with a full queue."""
    if not grid.has("queued_seconds"):
        return None
    shown = [name for name in SHOWN if grid.has(name)]
    columns = key_columns(grid, "framework", "mode", "variant")
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [metric_column(name) for name in shown]
    bound = "device_share" in shown
    columns += [Column("bound by")] * bound
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        for length in grid.lengths(setting):
            key = Key(setting, variant, framework, mode, length)
            values: list[Value] = [grid.value(key, name) for name in shown]
            values += [bound_by(grid.value(key, "device_share"))] * bound
            rows.append((*key_values(grid, setting, framework, mode, variant, length), *values))
    sources = sorted({text for _, text in grid.texts("energy_source")} - {""})
    note = (
        "Milliseconds per step. steady: the median of steps that are each waited for, as in all "
        "other tables. queued: only the last of many steps is waited for, as in training."
    )
    if "device_seconds" in shown:
        note += (
            " on device: between two events around a step that is in the queue as a whole. busy: "
            "that time over the steady one; below "
            f"{LAUNCH_BOUND:.0%} the step is launch-bound: the device waits for Python."
        )
    if "joules" in shown:
        note += f" J/step: joules per queued step ({'; '.join(sources)})."
    if "watts" in shown or "sm_megahertz" in shown:
        note += " W and MHz: power and clock rate while the queue was full."
    note += why_missing(grid, "device_seconds", "joules")
    title = "Steps alone and with a full queue, and their energy"
    return Table("throughput", title, note, context.shared, tuple(columns), rows)


def bound_by(share: Value) -> str:
    """What limits a step whose device works for this share of it."""
    if isinstance(share, str):
        return ""
    return "launches" if share < LAUNCH_BOUND else "device"
