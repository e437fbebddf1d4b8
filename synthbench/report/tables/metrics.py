"""The metrics of tasks that have no tables of their own, one column per metric."""

from __future__ import annotations

from synthbench.report.data.context import Context
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Column, Table, metric_column
from synthbench.report.data.training_groups import training_records
from synthbench.report.tables.layout import Row, key_columns, key_values, rows_by_pair
from synthbench.tasks.catalog import TASK_REGISTRY
from synthbench.tasks.cost import Cost

WORDS = ("text", "flag", "mapping")


def metrics(grid: Grid, context: Context) -> Table | None:
    """One row per framework, mode, variant and length; one column per metric of the tasks.

    None for a run without such tasks: `cost` and trainings have tables of their own.
    """
    names, tasks = task_metrics(grid), other_tasks(grid)
    if not names:
        return None
    columns = key_columns(grid, "framework", "mode", "variant")
    columns += [Column("length", "exact_count", is_key=True)]
    columns += [_column(name) for name in names]
    rows: list[Row] = []
    for setting, framework, mode, variant in rows_by_pair(grid):
        for length in grid.lengths(setting):
            key = Key(setting, variant, framework, mode, length)
            cell = grid.cell(key)
            if cell is None or cell["task"] in tasks:
                values = [_value(grid, key, name) for name in names]
                keys = key_values(grid, setting, framework, mode, variant, length)
                rows.append((*keys, *values))
    directions = [
        f"{metric_named(name).label}: {metric_named(name).better} is better"
        for name in names
        if metric_named(name).better != "neither"
    ]
    note = f"{'; '.join(directions)}." if directions else "No metric has a better direction."
    return Table("metrics", "Metrics of the tasks", note, context.shared, tuple(columns), rows)


def task_metrics(grid: Grid) -> list[str]:
    """The metrics of `other_tasks`, also of a task that is not loaded."""
    tasks = other_tasks(grid)
    others = [record for record in grid.records if record.cell.task in tasks]
    known = TASK_REGISTRY.known()
    declared = [name for task in tasks if task in known for name in known[task].metrics]
    found = sorted({name for record in others for name in record.measurements.values})
    return list(dict.fromkeys([*declared, *found]))


def other_tasks(grid: Grid) -> list[str]:
    """The tasks that have no tables of their own: neither `cost` nor trainings."""
    trained = {record.cell.task for record in training_records(grid.latest)}
    tasks = dict.fromkeys(record.cell.task for record in grid.records)
    return [task for task in tasks if task != Cost.name and task not in trained]


def _column(name: str) -> Column:
    if metric_named(name).type in WORDS:
        return Column(metric_named(name).label)
    return metric_column(name)


def _value(grid: Grid, key: Key, name: str) -> int | float | str:
    value = grid.value(key, name)
    return str(value) if metric_named(name).type in WORDS else value
