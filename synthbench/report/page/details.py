"""What a number rests on: interval, rounds, samples and record of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from synthbench.printable import one_line
from synthbench.record import Record, latest
from synthbench.report.data.grid import TWIN, Key
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Column, for_reading
from synthbench.report.page.run_data import RunData
from synthbench.suites.cell import FLAT_FIELDS
from synthbench.tasks.derived_metrics import RECORD_FIELDS

NOT_METRICS = {*FLAT_FIELDS, *RECORD_FIELDS, "rounds"}
WORDS = ("text", "flag", "mapping")  # types of metrics that are not numbers
BETWEEN = ("calibration", "baseline")  # of a timing
OF_ROUND = {  # heading -> metric, of the table of rounds
    "steady": "median_seconds",
    "low": "low_seconds",
    "high": "high_seconds",
    "samples": "samples",
    "peak memory": "peak_bytes",
}


def details(data: RunData) -> dict[str, Any]:
    """Cell id -> title; facts and rounds as texts; and the records nearly as they are stored."""
    records: dict[str, list[dict[str, Any]]] = {}
    for record in latest(data.run.records):
        records.setdefault(record.id, []).append(_stored(record))
    return {
        cell_id: {
            "title": _title(key),
            "facts": _facts(data, cell_id, key),
            "rounds": _rounds(data, cell_id),
            "records": records.get(cell_id, []),
        }
        for key, cell_id in data.grid.ids.items()
    }


def _stored(record: Record) -> dict[str, Any]:
    """The record as it is stored, without the times of what ran between the samples.

    They are more numbers than the samples, and would be a third of the page.
    """
    content = record.model_dump(mode="json")
    timing = content["measurements"]["timing"] or {}
    for name in BETWEEN:
        if (found := timing.get(name)) is not None:
            for field in ("after", "seconds"):
                found[field] = f"{len(found[field])} numbers, in the records of the run"
    return content


def _title(key: Key) -> str:
    variant = f"{key.variant} {TWIN}" if key.replica else key.variant
    parts = (variant, key.framework, key.mode, f"length {key.seq_len}", key.setting)
    return one_line(", ".join(filter(None, parts)))


def _facts(data: RunData, cell_id: str, key: Key) -> list[list[str]]:
    """Name and value of the ratio, then of everything that was measured."""
    row = data.grid.cell(key) or {}
    found = [["outcome", row["outcome"]]]
    found += [["reason", row["reason"]]] if row["reason"] else []
    if one := data.ratios.get(cell_id):
        ratio = Column("ratio", "ratio")
        low, high = for_reading(ratio, one.low), for_reading(ratio, one.high)
        text = for_reading(ratio, one.ratio)
        if not isinstance(one.ratio, str):
            text += f", 95% interval {low} to {high}, {one.verdict}"
        found.append([f"speed vs {data.context.baseline}", text])
    if not _is_missing(row.get("median_seconds")):
        found.append(["time of a step", _time(row, data.grid.rounds_of(cell_id))])
    found += [
        [str(name), _shown(str(name), value)]
        for name, value in row.items()
        if name not in NOT_METRICS and not _is_missing(value)
    ]
    return [[one_line(name), one_line(str(value))] for name, value in found]


def _time(row: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> str:
    """The median time of a step, with its interval; several rounds have one each."""
    names = ("median_seconds", "low_seconds", "high_seconds")
    median, low, high = (_shown(name, row[name]) for name in names)
    timed = sum(not _is_missing(one["median_seconds"]) for one in rounds)
    if timed > 1:
        return f"{median}; the 95% intervals of its rounds span {low} to {high}"
    return f"{median}, 95% interval {low} to {high}"


def _rounds(data: RunData, cell_id: str) -> list[list[str]]:
    """The headings of the table of rounds, then a row per round."""
    rows = [["round", "outcome", *(_heading(*pair) for pair in OF_ROUND.items())]]
    for row in data.grid.rounds_of(cell_id):
        values = [_shown(name, row[name], with_unit=False) for name in OF_ROUND.values()]
        rows.append([str(row["round"]), str(row["outcome"]), *values])
    return [[one_line(text) for text in row] for row in rows]


def _heading(label: str, name: str) -> str:
    unit = metric_named(name).unit
    return label if unit == "1" else f"{label} ({unit})"


def _shown(name: str, value: Any, *, with_unit: bool = True) -> str:
    if _is_missing(value):
        return "not measured"
    metric = metric_named(name)
    if metric.type in WORDS:
        return str(value)
    text = for_reading(Column("", name), value)
    if not with_unit or metric.unit in ("", "1"):
        return text
    return f"{text} x {metric.unit}" if metric.unit[0].isdigit() else f"{text} {metric.unit}"


def _is_missing(value: Any) -> bool:
    if isinstance(value, str | dict | list):
        return not value
    return bool(pd.isna(value))
