"""Records -> one tidy DataFrame, a row a record; statistics are derived here, on reading."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from synthbench.analysis.intervals import median_interval
from synthbench.record import Record, latest
from synthbench.suites.cell import FLAT_FIELDS

# From the worst for a comparison to the mildest: what a cell counts as when its rounds differ.
OUTCOMES = ("crashed", "quarantined", "unsupported", "timeout", "oom", "oom_predicted", "ok")

TIMES = ("median_seconds", "build_seconds", "compile_seconds", "first_step_seconds")


def record_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row a record: the cell's fields, the outcome, and what was measured (NaN/None if not).

    Columns beside the fields of Cell: id, round, outcome, reason, median_seconds, low_seconds,
    high_seconds (95% interval), samples, steps_per_second, half_width_percent, build_seconds,
    compile_seconds, first_step_seconds, peak_bytes, parameter_bytes, optimizer_bytes, batch_bytes,
    activation_bytes, planned_bytes, predicted_bytes, predicted_tool, parameters, constants,
    declared_parameters, flops, traced_flops, traced_tool, uncounted, compiler_flops,
    parity_against, parity_forward, parity_gradient, parity_tolerance, parity_gradient_tolerance,
    parity_passed, warnings (what disturbed the steady state, "" where nothing did), wall_seconds,
    built_form (None where the record does not tell), kernels (those it used, "" for none).
    `replica` 1 marks the A/A twins of the baseline.
    Where a cell of a round was measured again, the last attempt counts.
    """
    rows = [_row(record) for record in latest(records)]
    return _typed(pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object))


def pool_rounds(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a cell: times are the median over the rounds of each round's median.

    The interval spans those of the rounds; peak memory and parity errors are the largest of the
    rounds; the outcome is the worst of them, since a cell that fails now and then gives no number
    to rely on. `rounds` counts the rounds recorded.
    """
    pooled = [_pool_cell(rounds) for _, rounds in frame.groupby("id", sort=False)]
    return _typed(pd.DataFrame(pooled, columns=[*_COLUMNS, "rounds"], dtype=object))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Give each column its type; without this, one missing value makes integers inexact."""
    types = dict.fromkeys(COUNTS, "Int64") | dict.fromkeys(FLOATS, "float64")
    return frame.astype(types).infer_objects()


def _pool_cell(rounds: pd.DataFrame) -> dict[str, Any]:
    worst = min(rounds["outcome"], key=OUTCOMES.index)
    cell: dict[str, Any] = rounds[rounds["outcome"] == worst].iloc[0].to_dict()
    cell |= {time: rounds[time].median() for time in TIMES}
    cell["low_seconds"] = rounds["low_seconds"].min()
    cell["high_seconds"] = rounds["high_seconds"].max()
    for largest in ("peak_bytes", "activation_bytes", "parity_forward", "parity_gradient"):
        cell[largest] = rounds[largest].max()
    told = [text for text in rounds["warnings"] if text]
    cell["warnings"] = "; ".join(dict.fromkeys(told))
    return cell | _rates(cell) | {"samples": rounds["samples"].sum(), "rounds": len(rounds)}


def _row(record: Record) -> dict[str, Any]:
    measured = record.measurements
    timing, flops = measured.timing, measured.flops
    memory, predicted, parity = measured.memory, measured.predicted_memory, measured.parity
    row: dict[str, Any] = record.cell.flat() | {
        "id": record.id,
        "round": record.round,
        "outcome": record.outcome,
        "reason": record.reason,
        "wall_seconds": record.wall_seconds,
        "parameters": measured.parameters,
        "constants": measured.constants,
        "declared_parameters": measured.declared_parameters,
        "samples": 0,
        "warnings": "; ".join(measured.warnings),
        "built_form": measured.form,
        "kernels": ", ".join(measured.kernels),
    }
    if timing is not None:
        row |= {name: getattr(timing, name) for name in TIMES[1:]}
        row |= _steady_state(timing.samples)
    if flops is not None:
        row |= {"flops": flops.formula, "traced_flops": flops.traced}
        row |= {"traced_tool": flops.traced_tool, "uncounted": flops.uncounted}
        row |= {"compiler_flops": flops.compiler}
    if memory is not None:
        row |= {"peak_bytes": memory.peak, "planned_bytes": memory.planned}
        known = memory.parameters + memory.optimizer + memory.batch
        row |= {"activation_bytes": memory.peak - known}
        row |= {"parameter_bytes": memory.parameters, "optimizer_bytes": memory.optimizer}
        row |= {"batch_bytes": memory.batch}
    if predicted is not None:
        row |= {"predicted_bytes": predicted.bytes, "predicted_tool": predicted.tool}
    if parity is not None:
        row |= {f"parity_{name}": value for name, value in parity.model_dump().items()}
    return row


def _steady_state(samples: list[float]) -> dict[str, Any]:
    if not samples:
        return {}
    interval = median_interval(samples)
    times = {
        "median_seconds": interval.median,
        "low_seconds": interval.low,
        "high_seconds": interval.high,
    }
    return times | _rates(times) | {"samples": len(samples)}


def _rates(times: dict[str, Any]) -> dict[str, float]:
    """Steps per second, and half of the interval's width in percent of the median."""
    median = times["median_seconds"]
    if not median > 0:  # no samples, or a time that cannot be
        return {"steps_per_second": math.nan, "half_width_percent": math.nan}
    width = times["high_seconds"] - times["low_seconds"]
    return {"steps_per_second": 1 / median, "half_width_percent": 50 * width / median}


COUNTS = (
    "peak_bytes", "parameter_bytes", "optimizer_bytes", "batch_bytes", "activation_bytes",
    "planned_bytes", "predicted_bytes", "parameters", "constants", "declared_parameters", "flops",
    "traced_flops",
)  # fmt: skip
FLOATS = (
    *TIMES, "low_seconds", "high_seconds", "steps_per_second", "half_width_percent",
    "compiler_flops", "parity_forward", "parity_gradient", "parity_tolerance",
    "parity_gradient_tolerance", "wall_seconds",
)  # fmt: skip
_COLUMNS = (
    *FLAT_FIELDS, "id", "round", "outcome", "reason", "samples", *FLOATS, *COUNTS,
    "traced_tool", "uncounted", "predicted_tool", "parity_against", "parity_passed", "warnings",
    "built_form", "kernels",
)  # fmt: skip
