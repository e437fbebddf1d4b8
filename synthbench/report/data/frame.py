"""Records -> one tidy DataFrame with one row per record; its columns are the declared metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import pandas as pd

from synthbench.metrics import Metric, Pool, pool_values, task_values, value_of
from synthbench.record import Record, latest
from synthbench.report.data.metrics import metric_named, recorded_metrics
from synthbench.suites.cell import FLAT_FIELDS
from synthbench.tasks.derived_metrics import RECORD_FIELDS

# From the worst for a comparison to the mildest: the outcome of a cell whose rounds differ.
OUTCOMES = (
    "crashed",
    "quarantined",
    "unchecked",
    "unsupported",
    "diverged",
    "timeout",
    "oom",
    "oom_predicted",
    "ok",
)

DTYPES = {"count": "Int64", "number": "float64", "flag": "boolean"}  # others: Python objects

Row = Mapping[str, Any]


def record_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row per record; of a cell measured again in its round, only the last attempt.

    Columns: the fields of Cell, those of its model beside them (`replica` 1 marks the A/A twin of
    the baseline); id, round, outcome, reason; and one column per metric, as `COMMON_METRICS`
    (synthbench/tasks/common_metrics.py) and the `metrics` of each task declare them, for the task
    `cost` in synthbench/tasks/cost_metrics.py. Those of a training are of its last evaluation. What
    was not measured is missing (NaN, NA or None).
    """
    return typed_frame(*record_rows(records))


def record_rows(records: Iterable[Record]) -> tuple[list[Row], dict[str, Metric]]:
    """The rows of `record_frame` as dictionaries, and the metrics among their keys."""
    counted = latest(records)
    metrics = metrics_of(counted)
    return [record_row(record, metrics) for record in counted], metrics


def pool_rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per cell: each metric pooled over the rounds as its declaration says.

    The outcome is the worst of the rounds: a cell that fails sometimes gives no reliable number.
    `rounds` counts the rounds recorded.
    """
    fixed = {*FLAT_FIELDS, *RECORD_FIELDS}
    metrics = {name: metric_named(name) for name in frame.columns if name not in fixed}
    rows = [
        {str(name): None if is_missing(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
    by_cell = rows_by_cell(rows)
    return pool_cells(by_cell, metrics)


def rows_by_cell(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Cell id -> its rows, one per round."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["id"], []).append(row)
    return found


def pool_cells(by_cell: Mapping[str, Sequence[Row]], metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """What `pool_rounds` gives, from the rows of each cell."""
    rows = [row for of_cell in by_cell.values() for row in of_cell]
    ends = list(accumulate(map(len, by_cell.values()), initial=0))
    values = RowValues(rows, metrics)
    return pooled_frame(values, [range(*pair) for pair in pairwise(ends)])


class Values(Protocol):
    """The records of a run that count, as columns: one position per record."""

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that the columns have."""

    def column(self, name: str) -> Sequence[Any]:
        """A metric, or a field of records, at each position; None where it is missing."""

    def fields(self, positions: Sequence[int]) -> Mapping[str, Sequence[Any]]:
        """What is not a metric, at these positions: fields of the cell and of the record."""

    def row(self, position: int) -> Row:
        """Everything at a position, as in `record_row`."""


@dataclass(frozen=True)
class RowValues:
    """The columns of rows that are in memory."""

    rows: Sequence[Row]
    metrics: Mapping[str, Metric]

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]

    def fields(self, positions: Sequence[int]) -> Mapping[str, Sequence[Any]]:
        names = [name for name in (self.rows[0] if self.rows else ()) if name not in self.metrics]
        return {name: [self.rows[n][name] for n in positions] for name in names}

    def row(self, position: int) -> Row:
        return self.rows[position]


def pool_columns(values: Values, cells: Sequence[Sequence[int]]) -> dict[str, list[Any]]:
    """Each metric pooled over the positions of each cell: one value per cell and column.

    One column is looked at after the other, so that a large run is never in memory as a whole.
    """
    outcomes = values.column("outcome")
    firsts = [cell[0] for cell in cells]
    if len(set(outcomes)) > 1:
        ranks = [OUTCOMES.index(outcome) for outcome in outcomes]
        firsts = [min(cell, key=ranks.__getitem__) for cell in cells]
    pooled = {name: list(column) for name, column in values.fields(firsts).items()}
    for name, metric in values.metrics.items():
        if metric.of_row is None:
            column = values.column(name)
            pooled[name] = (
                [column[first] for first in firsts]
                if metric.pool == "first"
                else _pooled(metric.pool, column, cells)
            )
    for name, metric in values.metrics.items():
        if metric.of_row is not None:
            pooled[name] = [metric.of_row(ColumnRow(pooled, n)) for n in range(len(cells))]
    return pooled


def _pooled(how: Pool, column: Sequence[Any], cells: Sequence[Sequence[int]]) -> list[Any]:
    """`pool_values` of each cell; rounds that are alike, as most texts are, are pooled once."""
    missing = column.count(None)
    if missing == len(column):
        return [pool_values(how, [], None)] * len(cells)
    rounds = [tuple([column[n] for n in cell]) for cell in cells]
    if how == "join":
        known = {one: pool_values(how, list(one), None) for one in dict.fromkeys(rounds)}
        return [known[one] for one in rounds]
    if not missing and how in ("max", "min"):
        return list(map(max if how == "max" else min, rounds))
    return [pool_values(how, list(one), None) for one in rounds]


def pooled_frame(values: Values, cells: Sequence[Sequence[int]]) -> pd.DataFrame:
    """`pool_columns` with one type per column, and how many `rounds` each cell has."""
    made = typed_frame(pool_columns(values, cells), values.metrics)
    made["rounds"] = [len(cell) for cell in cells]
    return made


@dataclass(frozen=True, slots=True)
class ColumnRow(Mapping[str, Any]):
    """A row of columns, read where it is asked."""

    columns: Mapping[str, Sequence[Any]]
    position: int

    def __getitem__(self, name: str) -> Any:
        return self.columns[name][self.position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def metrics_of(records: Sequence[Record]) -> dict[str, Metric]:
    """Every declared metric, and the values of tasks that are not known here, as numbers."""
    return with_others({name for record in records for name in task_values(record)})


def with_others(names: Set[str]) -> dict[str, Metric]:
    """Every declared metric, and those among `names` that are not, as numbers."""
    declared = recorded_metrics()
    return {**declared, **{name: metric_named(name) for name in sorted(names - declared.keys())}}


def record_row(record: Record, metrics: Mapping[str, Metric]) -> Row:
    """What `record_frame` shows of one record; None for what was not measured."""
    row: dict[str, Any] = record.cell.flat() | {
        name: getattr(record, name) for name in RECORD_FIELDS
    }
    for name, metric in metrics.items():
        if metric.of_row is None:
            row[name] = value_of(name, metric, record)
    return row | _from_row(row, metrics)


def pool_rows(rows: Sequence[Row], metrics: Mapping[str, Metric]) -> Row:
    """One row for the rounds of a cell."""
    pooled = pool_columns(RowValues(rows, metrics), [range(len(rows))])
    return dict(ColumnRow(pooled, 0))


def _from_row(row: Row, metrics: Mapping[str, Metric]) -> dict[str, Any]:
    return {name: one.of_row(row) for name, one in metrics.items() if one.of_row is not None}


def typed_frame(
    rows: Sequence[Row] | Mapping[str, Sequence[Any]], metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """A frame with one type per column; without this, one missing value makes integers inexact.

    `rows`: also as columns.
    """
    columns = [*FLAT_FIELDS, *RECORD_FIELDS, *metrics]
    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    types = {name: DTYPES[one.type] for name, one in metrics.items() if one.type in DTYPES}
    with texts_of_python():
        return frame.astype(types).infer_objects()


def texts_of_python() -> Any:
    """In this block, pandas keeps new texts as Python's, also where pyarrow is installed.

    Those of pyarrow cannot have what UTF-8 cannot, such as half of a surrogate pair.
    """
    return pd.option_context("mode.string_storage", "python")


def is_missing(value: Any) -> bool:
    """Whether a value of a metric says that there is none."""
    return value is None or (not isinstance(value, dict | list) and bool(pd.isna(value)))
