"""The columns of a packed file beside its lines: what tables read of each record.

They are made by the same functions as the rows of tables are (`record_row`), and trusted only while
the code of these functions is the same as when they were made.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from synthbench.metrics import Metric, task_values, value_of
from synthbench.record import Record
from synthbench.report.data.metrics import recorded_metrics

CELL, TRAINS, OTHERS = "cell", "has_training", "other_values"
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
        found[OTHERS] = [None if r is None else self._others(r) for r in records]
        for name, metric in self.metrics.items():
            found[PREFIX + name] = [None] * len(records)
        for number, record in enumerate(records):
            if record is not None:  # all of one record in turn: its interval is made once
                for name, metric in self.metrics.items():
                    value = value_of(name, metric, record)
                    found[PREFIX + name][number] = packed_value(metric, value)
        return found

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
