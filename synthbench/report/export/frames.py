"""Records as one flat table with one row per record: CSV text, or a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from synthbench.errors import PackageMissingError
from synthbench.models.spec import ModelSpec
from synthbench.record import Record, latest
from synthbench.report.data.frame import DTYPES, record_frame, texts_of_python
from synthbench.report.data.metrics import metric_named
from synthbench.report.text.escaping import csv_cell
from synthbench.suites.cell import FLAT_FIELDS, Cell
from synthbench.tasks.derived_metrics import RECORD_FIELDS

SAMPLES = "sample_seconds"


def csv_text(records: Iterable[Record]) -> str:
    """The columns of `load_results`, without raw samples; a missing value is empty."""
    with texts_of_python():
        frame = _flat(record_frame(records))
        for name in frame.columns:
            if frame[name].dtype.kind not in "iufb":
                frame[name] = frame[name].map(_cell).astype(object)
    return frame.rename(columns=csv_cell).to_csv(index=False, lineterminator="\n")


def write_parquet(records: Iterable[Record], path: Path) -> None:
    """The columns of `load_results`, and SAMPLES: a list with the seconds of each step.

    Raises PackageMissingError without pyarrow, and OSError if the file cannot be written.
    """
    frame = parquet_frame(records)
    try:
        content = frame.to_parquet(None, engine="pyarrow", index=False)
    except ImportError as error:
        reason = str(error).partition(". ")[0].replace("`", "")
        raise PackageMissingError(
            f"Parquet files need pyarrow: {reason}; pip install 'synthbench[parquet]', or use "
            "--format csv"
        ) from error
    path.write_bytes(content)  # pyarrow takes a path like cuda:0/records.parquet for an address


def parquet_frame(records: Iterable[Record]) -> pd.DataFrame:
    """The frame that `write_parquet` writes; each column has one type."""
    counted = latest(records)
    with texts_of_python():
        frame = _flat(record_frame(counted))
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.StringDtype):
            texts = [None if bool(pd.isna(text)) else _encodable(text) for text in frame[name]]
            frame[name] = pd.Series(texts, index=frame.index, dtype="str")
    timings = [record.measurements.timing for record in counted]
    samples = [None if timing is None else timing.samples for timing in timings]
    frame[SAMPLES] = pd.Series(samples, index=frame.index, dtype=object)
    return frame


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Each column has the same type in every run, even if it is empty; mappings become JSON."""
    for name in frame.columns:
        if name in INTEGERS:
            frame[name] = frame[name].astype("Int64")
        elif name in FIXED_TEXTS or metric_named(name).type not in DTYPES:
            texts = pd.Series(map(_json, frame[name]), index=frame.index, dtype=object)
            frame[name] = texts.astype("str")
    return frame


def _cell(value: Any) -> Any:
    return csv_cell(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    """Half of a surrogate pair, which UTF-8 cannot have, as \\ud800."""
    return text.encode("utf-8", "backslashreplace").decode()


def _json(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _is_integer(annotation: Any) -> bool:
    return annotation is int or any(map(_is_integer, get_args(annotation)))


INTEGERS = {
    name
    for fields in (Cell.model_fields, ModelSpec.model_fields)
    for name, field in fields.items()
    if _is_integer(field.annotation)
}
INTEGERS |= {"round"}
FIXED_TEXTS = {*FLAT_FIELDS, *RECORD_FIELDS} - INTEGERS
