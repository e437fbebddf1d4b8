"""How much faster train steps are when several devices share each batch."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from synthbench.analysis.comparison import Comparison, Estimate, estimate
from synthbench.record import Record
from synthbench.report.data.context import Context
from synthbench.report.data.grid import NOT_MEASURED, Grid
from synthbench.report.data.table import Column, Marked, Table, Value, metric_column
from synthbench.report.tables.layout import Row
from synthbench.suites.cell import Cell
from synthbench.tasks.cost_metrics import interval


class Rate(NamedTuple):
    """Steps per second, and the machine that measured them.

    `compared`: of the task cost by relative times where the run has them, as all ratios.
    """

    steps: float
    machine: str
    compared: float


Rates = Mapping[int, Rate]  # by round


def devices(grid: Grid, context: Context) -> Table | None:
    """One row per cell and number of devices; None for a run in which all use one."""
    records = [
        record for record in grid.latest if not record.cell.replica and record.cell.mode == "train"
    ]
    cells = {record.id: record.cell for record in records}
    counts = {cell.devices for cell in cells.values()}
    if counts <= {1}:
        return None
    by_count: dict[str, dict[int, str]] = {}
    for cell_id, cell in sorted(cells.items(), key=lambda item: item[1].devices):
        by_count.setdefault(all_but_devices(cell), {})[cell.devices] = cell_id
    without = grid.settings_without("devices")
    settings = {cell_id: without[grid.key(cell).setting] for cell_id, cell in cells.items()}
    columns = [Column("setting", is_key=True)] * any(settings.values())
    columns += [Column(name, is_key=True) for name in ("framework", "variant")]
    columns += [
        Column("length", "exact_count", is_key=True),
        Column("devices", "exact_count", is_key=True),
        metric_column("steps_per_second"),
        Column("speed vs 1 device", "ratio"),
        metric_column("scaling_efficiency"),
        Column("low", "scaling_efficiency"),
        Column("high", "scaling_efficiency"),
    ]
    rates = {cell_id: rates_of(grid, records, cell_id) for cell_id in cells}
    order = {variant: place for place, variant in enumerate(grid.variant_order)}
    groups = [list(group.values()) for group in by_count.values() if max(group) > 1]

    def place(group: list[str]) -> tuple[object, ...]:
        cell = cells[group[0]]
        return (
            settings[group[0]],
            cell.framework != "torch",
            order.get(cell.variant, len(order)),
            cell.seq_len,
        )

    groups = sorted(groups, key=place)
    found: dict[str, Comparison | str] = {}
    for group in groups:
        first = cells[group[0]]
        one = rates[group[0]] if first.devices == 1 else None
        failed = grid.missing(grid.key(first)) if one is not None else None
        for cell_id in group:
            cell = cells[cell_id]
            found[cell_id] = (
                grid.missing(grid.key(cell))
                or (failed and f"1 device {failed}")
                or compared(rates[cell_id], one, cell.framework)
            )
    rows: list[Row] = []
    estimates = _estimates(found, cells)
    for cell_id in (cell_id for group in groups for cell_id in group):
        cell = cells[cell_id]
        keys: Row = (cell.framework, cell.variant, cell.seq_len, cell.devices)
        setting: Row = (settings[cell_id],) * any(settings.values())
        own = grid.missing(grid.key(cell)) or usual_rate(grid, cell_id, rates[cell_id])
        rows.append((*setting, *keys, own, *_values(estimates[cell_id], cell.devices)))
    note = (
        "steps/s: train steps of the whole batch. Of the task cost by the median time of a step, "
        "which ends when the slowest device is done; of a training by its clock, without "
        "evaluations, where the time to divide and distribute batches counts. scaling efficiency "
        "(same batch): steps/s over those of as many single devices, 100 at best, with its 95% "
        "confidence interval; the batch of a step stays the same, so each device gets a smaller "
        "part of it (strong scaling). Ratios are taken within a round."
    )
    title = "Train steps on several devices"
    return Table("devices", title, note, context.shared, tuple(columns), rows)


def all_but_devices(cell: Cell) -> str:
    """Equal for cells that differ in the number of devices only."""
    return json.dumps(cell.model_dump(mode="json", exclude={"devices"}), sort_keys=True)


def rates_of(grid: Grid, records: list[Record], cell_id: str) -> Rates:
    """Steps per second of a cell in each round that measured it."""
    seconds = grid.seconds_by_round(cell_id)
    rates: dict[int, Rate] = {}
    for record in records:
        if record.id == cell_id and (steps := rate_of(record)):
            compared = 1 / seconds[record.round] if record.round in seconds else steps
            rates[record.round] = Rate(steps, record.machine, compared)
    return rates


def rate_of(record: Record) -> float:
    """Steps per second of a training, or of the steps that the task `cost` timed; 0: not known."""
    training = record.measurements.training
    if training is None:
        timed = interval(record)
        return 1 / timed.value if timed is not None and timed.value else 0.0
    if not training.evaluations or not training.evaluations[-1].seconds:
        return 0.0
    last = training.evaluations[-1]
    return last.step / last.seconds


def usual_rate(grid: Grid, cell_id: str, rates: Rates) -> Value:
    """The median of the rounds, marked where something disturbed one of them."""
    if not rates:
        return NOT_MEASURED
    steps = median([rate.steps for rate in rates.values()])
    return Marked(steps) if cell_id in grid.disturbed_cells else steps


def compared(own: Rates, one: Rates | None, family: str) -> Comparison | str:
    """The steps per second with those of one device, in each round; or why that is not known."""
    if one is None:
        return "no cell with 1 device"
    shared = [
        number
        for number in sorted(own.keys() & one.keys())
        if own[number].machine == one[number].machine
    ]
    if not shared:
        return "no shared round"
    ratios = tuple(math.log(own[number].compared / one[number].compared) for number in shared)
    machines = tuple(own[number].machine for number in shared)
    return Comparison(ratios, 0.0, family, machines)


def _estimates(
    found: Mapping[str, Comparison | str], cells: Mapping[str, Cell]
) -> dict[str, Estimate | str]:
    """The ratios of all cells, those of several devices estimated together."""
    several = {
        cell_id: one
        for cell_id, one in found.items()
        if isinstance(one, Comparison) and cells[cell_id].devices > 1
    }
    single = {
        cell_id: Estimate(0.0, 0.0, math.inf, len(one.log_ratios))
        for cell_id, one in found.items()
        if isinstance(one, Comparison) and cells[cell_id].devices == 1
    }
    words = {cell_id: one for cell_id, one in found.items() if isinstance(one, str)}
    return {
        **words,
        **single,
        **dict(zip(several, estimate(list(several.values())), strict=True)),
    }


def _values(found: Estimate | str, devices: int) -> Row:
    """The ratio to one device, and the efficiency with its interval."""
    if isinstance(found, str):
        return (found,) * 4
    if devices == 1:
        return (1, 1, 1, 1)
    low, high = (end / devices for end in found.interval())
    ends: Row = ("one round",) * 2 if found.rounds == 1 else (low, high)
    return (found.ratio, found.ratio / devices, *ends)
