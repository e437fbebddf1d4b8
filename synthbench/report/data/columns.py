"""The columns of a packed file beside its lines: what tables read of each record.

They are made by the same functions as the rows of tables are (`record_row`), and trusted only while
the code of these functions is the same as when they were made.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast

from synthbench.metrics import Metric, task_values, value_of
from synthbench.packed import PACKED, PackedFile, damaged, open_packed
from synthbench.record import Measurements, Record, latest
from synthbench.record_lines import parse_record
from synthbench.report.data.frame import ColumnRow, Row, RowValues, Values, record_rows, with_others
from synthbench.report.data.metrics import recorded_metrics
from synthbench.store import Run, names_of_records, read_info, read_run, without_garbage_collection
from synthbench.suites.cell import FLAT_FIELDS, Cell
from synthbench.tasks.derived_metrics import RECORD_FIELDS

CELL, TRAINS, WARNINGS, OTHERS = "cell", "has_training", "warnings", "other_values"
FIELDS = ("id", "round", "attempt", "outcome", "reason", "machine", "wall_seconds")
PREFIX = "metric."  # of the columns of metrics


class MetricColumns:
    """The columns that `pack` writes: fields of the records, their cells, and all metrics."""

    def __init__(self) -> None:
        self.metrics = stored_metrics()

    def schema(self) -> Mapping[str, Any]:
        """Name -> type of pyarrow."""
        import pyarrow as pa

        few = pa.dictionary(pa.int32(), pa.string())  # few distinct texts
        types = {"count": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}
        return {
            "id": pa.string(),
            "round": pa.int64(),
            "attempt": pa.int64(),
            "outcome": few,
            "reason": few,
            "machine": few,
            "wall_seconds": pa.float64(),
            CELL: pa.string(),
            TRAINS: pa.bool_(),
            WARNINGS: few,
            OTHERS: few,
            **{PREFIX + name: types.get(one.type, few) for name, one in self.metrics.items()},
        }

    def facts(self) -> Mapping[str, Any]:
        """The fingerprint of the code that makes the columns."""
        return {"columns": fingerprint()}

    def of(self, records: Sequence[Record | None]) -> Mapping[str, list[Any]]:
        """The values of each column; None where a line is damaged."""
        found: dict[str, list[Any]] = {
            name: [None if r is None else getattr(r, name) for r in records] for name in FIELDS
        }
        found[CELL] = [None if r is None else r.cell.model_dump_json() for r in records]
        found[TRAINS] = [r is not None and r.measurements.training is not None for r in records]
        found[WARNINGS] = [
            None if r is None or not r.warnings else json.dumps(r.warnings) for r in records
        ]
        found[OTHERS] = [None if r is None else self._others(r) for r in records]
        columns = [(name, one, [None] * len(records)) for name, one in self.metrics.items()]
        for number, record in enumerate(records):
            if record is None:
                continue
            own = task_values(record)
            for name, metric, column in columns:  # of one record in turn: its interval is made once
                if metric.of is not None or name in own:
                    value = value_of(name, metric, record)
                    if value is not None:
                        column[number] = packed_value(metric, value)
        return found | {PREFIX + name: column for name, _, column in columns}

    def _others(self, record: Record) -> str | None:
        others = {k: v for k, v in task_values(record).items() if k not in self.metrics}
        return json.dumps(others) if others else None


def stored_metrics() -> dict[str, Metric]:
    """The metrics that are read from records; the others are made from these."""
    return {name: one for name, one in recorded_metrics().items() if one.of_row is None}


def packed_value(metric: Metric, value: Any) -> Any:
    """A value of a metric as its column has it; mappings and unusual values as JSON."""
    if value is None or metric.type in ("count", "number", "flag"):
        return value
    return _text(value) if isinstance(value, str) else json.dumps(value)


@lru_cache(maxsize=1024)  # few distinct ones
def _text(value: str) -> str:
    return json.dumps(value)


def unpacked_value(metric: Metric, value: Any) -> Any:
    """The value of a metric from its column."""
    if value is None or metric.type in ("count", "number", "flag"):
        return value
    return json.loads(value)


def fingerprint() -> str:
    """SHA-256 of the source of every function that gives a metric, and of what they use."""
    return _fingerprint(tuple(sorted(stored_metrics())))


@lru_cache(maxsize=4)
def _fingerprint(names: tuple[str, ...]) -> str:
    import numpy as np

    from synthbench import kernel, metrics, record
    from synthbench.analysis import intervals
    from synthbench.suites import cell

    known = recorded_metrics()
    modules = {inspect.getmodule(known[name].of) for name in names if known[name].of is not None}
    files = {inspect.getfile(one) for one in (*modules, metrics, record, kernel, intervals, cell)
             if one is not None} | {__file__}  # fmt: skip
    digest = hashlib.sha256(f"{np.__version__} {names}".encode())
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


class PackedRecord:
    """A record of a packed run: a few fields in memory, the rest read where it is asked for."""

    __slots__ = ("attempt", "cell", "has_training", "id", "machine", "of", "outcome", "place",
                 "round")  # fmt: skip

    def __init__(self, of: PackedColumns, place: int, fields: Sequence[Any], cell: Cell) -> None:
        self.of, self.place, self.cell = of, place, cell
        self.id, self.round, self.attempt, self.outcome, self.machine, self.has_training = fields

    @property
    def key(self) -> tuple[str, int, int]:
        """As of a `Record`."""
        return self.id, self.round, self.attempt

    @property
    def reason(self) -> str:
        """As of a `Record`."""
        return str(self.of.column("reason")[self.place])

    @property
    def wall_seconds(self) -> float:
        """As of a `Record`."""
        return float(self.of.column("wall_seconds")[self.place])

    @property
    def built_form(self) -> str | None:
        """As of a `Record`."""
        return self.of.built_forms[self.place]

    @property
    def warnings(self) -> list[str]:
        """As of a `Record`."""
        return list(self.of.warnings[self.place])

    @property
    def missing(self) -> dict[str, str]:
        """As of a `Record`."""
        return self.of.missing[self.place] or {}

    @property
    def measurements(self) -> Measurements:
        """Everything, from the line of the record; this takes long for many records."""
        return self.of.parsed(self.place).measurements


class PackedColumns:
    """The columns of a packed file, each read when it is asked for; texts are shared."""

    def __init__(self, packed: PackedFile) -> None:
        self.packed = packed
        self.metrics = stored_metrics()
        self._kept: dict[str, list[Any]] = {}

    def column(self, name: str, decode: Callable[[Any], Any] = lambda value: value) -> list[Any]:
        """The values of a column in all rows; columns of few distinct texts stay in memory."""
        if name in self._kept:
            return self._kept[name]
        found: list[Any] = []
        keep = name == "wall_seconds"
        for chunk in self.packed.read([name]).column(0).chunks:
            keep = keep or hasattr(chunk, "dictionary")
            found += _decoded(chunk, decode)
        if keep:
            self._kept[name] = found
        return found

    def metric(self, name: str) -> list[Any]:
        """The values of a metric in all rows."""
        known = self._kept.get(PREFIX + name)
        if known is not None:
            return known
        return self.column(PREFIX + name, partial(unpacked_value, self.metrics[name]))

    @cached_property
    def built_forms(self) -> list[str | None]:
        """The form of the mixer in all rows."""
        return self.metric("built_form")

    @cached_property
    def missing(self) -> list[dict[str, str] | None]:
        """The missing counters in all rows."""
        return self.metric("missing")

    @cached_property
    def warnings(self) -> list[list[str]]:
        """The warnings in all rows."""
        found = self.column(WARNINGS)
        decoded = {text: [] if text is None else json.loads(text) for text in set(found)}
        return [decoded[text] for text in found]

    def others(self) -> list[dict[str, float | None] | None]:
        """The values of tasks that were not declared when the file was written."""
        return self.column(OTHERS, lambda text: None if text is None else json.loads(text))

    def parsed(self, place: int) -> Record:
        """The record of a row."""
        record = parse_record(self.packed.line(place), self.packed.path)
        if record is None:
            raise damaged(self.packed.path, ValueError(f"row {place + 1} is not a record"))
        return record

    def records(self) -> list[PackedRecord] | None:
        """The records in order; None where some lines are not records."""
        names = ("id", "round", "attempt", "outcome", "machine", TRAINS)
        found: dict[tuple[str, int, int], PackedRecord] = {}
        cells: dict[str, Cell] = {}
        shared: dict[str, str] = {}
        place = 0
        for group in range(self.packed.groups):
            table = self.packed.read([*names, CELL], group)
            if table.column("id").null_count:
                return None
            columns = [
                [value for chunk in table.column(name).chunks for value in _decoded(chunk)]
                for name in names
            ]
            texts = table.column(CELL)
            for number, fields in enumerate(zip(*columns, strict=True)):
                cell_id, round_number, attempt, outcome, machine, trains = fields
                cell = cells.get(cell_id)
                if cell is None:
                    cell = Cell.model_validate_json(texts[number].as_py())
                    cells[cell_id] = cell
                    shared[cell_id] = cell_id
                fields = (
                    shared[cell_id],
                    round_number,
                    attempt,
                    shared.setdefault(outcome, outcome),
                    shared.setdefault(machine, machine),
                    trains,
                )
                record = PackedRecord(self, place, fields, cell)
                found[record.key] = record
                place += 1
        return list(found.values())


def _decoded(chunk: Any, decode: Callable[[Any], Any] = lambda value: value) -> list[Any]:
    """The values of an array of pyarrow; equal texts of a dictionary are one object."""
    if not hasattr(chunk, "dictionary"):
        return _values(chunk)
    texts = [*map(decode, chunk.dictionary.to_pylist()), None]  # -1: the last
    return [texts[number] for number in _values(chunk.indices.fill_null(-1))]


def _values(chunk: Any) -> list[Any]:
    """The values of an array of pyarrow; through NumPy where that has them exactly, for speed."""
    import pyarrow as pa

    if chunk.null_count == len(chunk):
        return [None] * len(chunk)
    if chunk.null_count or not pa.types.is_primitive(chunk.type):
        return list(chunk.to_pylist())
    return list(chunk.to_numpy(zero_copy_only=False).tolist())


@dataclass(frozen=True)
class PackedValues:
    """The columns of the records that count, of a packed run."""

    of: PackedColumns
    records: Sequence[PackedRecord]

    @cached_property
    def metrics(self) -> Mapping[str, Metric]:
        others = self.of.others()
        distinct = {id(one): one for one in self._chosen(others)}
        names = {name for one in distinct.values() for name in one or ()}
        return with_others(names)

    def column(self, name: str) -> list[Any]:
        if name in self.of.metrics:
            return self._chosen(self.of.metric(name))
        if name in RECORD_FIELDS:
            return [getattr(record, name) for record in self.records]
        if name in FLAT_FIELDS:
            of_cell = {record.id: record.cell.content[name] for record in self._first_rounds}
            return [of_cell[record.id] for record in self.records]
        of_row = self.metrics[name].of_row
        if of_row is not None:
            return [of_row(self.row(position)) for position in range(len(self.records))]
        others = self.of.others()
        return [(others[record.place] or {}).get(name) for record in self.records]

    @cached_property
    def _first_rounds(self) -> list[PackedRecord]:
        """A record of each cell."""
        return list({record.id: record for record in reversed(self.records)}.values())

    @cached_property
    def _places(self) -> list[int] | None:
        """The rows of the records that count; None for all rows in their order."""
        places = [record.place for record in self.records]
        return None if places == list(range(self.of.packed.rows)) else places

    def _chosen(self, values: list[Any]) -> list[Any]:
        """Of the values of all rows, those of the records that count."""
        return values if self._places is None else [values[place] for place in self._places]

    def fields(self, positions: Sequence[int]) -> Mapping[str, Sequence[Any]]:
        records = [self.records[n] for n in positions]
        contents = [record.cell.content for record in records]
        return {
            **{name: [content[name] for content in contents] for name in FLAT_FIELDS},
            **{name: [getattr(record, name) for record in records] for name in RECORD_FIELDS},
        }

    def row(self, position: int) -> Row:
        names = {name: None for name, one in self.metrics.items() if one.of_row is None}
        measured = ColumnRow(
            {
                **self.fields([position]),
                **{name: [self._columns[name][position]] for name in names},
            },
            0,
        )
        made = {n: m.of_row(measured) for n, m in self.metrics.items() if m.of_row is not None}
        return {**measured, **made}

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        """All of them, for those who read whole rows."""
        return {n: self.column(n) for n, one in self.metrics.items() if one.of_row is None}


def values_of(records: Sequence[Record]) -> Values:
    """The columns of the records that count, whether they are in memory or packed."""
    counted = latest(records)
    packed = [record for record in counted if isinstance(record, PackedRecord)]
    if packed:
        return PackedValues(packed[0].of, packed)
    return RowValues(*record_rows(counted))


def read_for_tables(run_dir: Path) -> Run:
    """A run as tables need it: of a packed one, only the columns that they ask for.

    The same as `read_run` where lines are damaged, where records were written after it was packed,
    or where this version of the code would make other columns. Raises ResultsError as it does.
    """
    packed = open_packed(run_dir) if (run_dir / PACKED).exists() else None
    if packed is None or packed.facts.get("columns") != fingerprint():
        return read_run(run_dir)
    if any((run_dir / name).exists() for name in names_of_records(run_dir, packed)):
        return read_run(run_dir)
    info = read_info(run_dir)
    with without_garbage_collection():
        records = PackedColumns(packed).records()
    return read_run(run_dir) if records is None else Run(run_dir, info, cast(Any, records), [])
