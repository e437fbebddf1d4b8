"""The metrics of the task `cost`: a metric is added here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from synthbench.analysis.calibration import low_seconds, relative_interval
from synthbench.analysis.intervals import Interval, median_interval
from synthbench.analysis.paired_ratio import paired_ratio
from synthbench.metrics import Metric, measured, percent, si, significant
from synthbench.record import Record

BYTES = "10^6 bytes"


def interval(record: Record) -> Interval | None:
    """The median of a record's samples with its 95% interval; None without samples."""
    timing = record.measurements.timing
    return _interval(tuple(timing.samples)) if timing is not None and timing.samples else None


@lru_cache(maxsize=16)  # several metrics of one record in turn
def _interval(samples: tuple[float, ...]) -> Interval:
    return median_interval(samples)


def interval_end(name: str) -> Any:
    """A function for `Metric.of`: the field `name` of the interval."""
    return lambda record: getattr(interval(record), name, None)


def calibration_seconds(record: Record) -> float | None:
    """The low quantile of the fixed work between the steps; None where it was not done."""
    timing = record.measurements.timing
    return low_seconds(timing.calibration.seconds) if timing and timing.calibration else None


def core_distance(record: Record) -> float | None:
    """The larger one of before and after the samples; None where it was not measured."""
    timing = record.measurements.timing
    return max(timing.core_distances) if timing and timing.core_distances else None


def relative(record: Record) -> Interval | None:
    """A step in units of the fixed work, with its interval; None where it was not done."""
    timing = record.measurements.timing
    if timing is None or timing.calibration is None or not timing.samples:
        return None
    return _relative(tuple(timing.samples), tuple(timing.calibration.seconds))


@lru_cache(maxsize=16)  # as above
def _relative(samples: tuple[float, ...], work: tuple[float, ...]) -> Interval:
    return relative_interval(samples, work)


def relative_end(name: str) -> Any:
    """A function for `Metric.of`: the field `name` of the interval relative to the fixed work."""
    return lambda record: getattr(relative(record), name, None)


def paired(record: Record) -> Interval | None:
    """How many times as fast a step is as the baseline's in the same process; None without it."""
    timing = record.measurements.timing
    if timing is None or timing.baseline is None or not timing.samples:
        return None
    return _paired(tuple(timing.samples), tuple(timing.baseline.seconds))


@lru_cache(maxsize=16)  # as above
def _paired(samples: tuple[float, ...], of_baseline: tuple[float, ...]) -> Interval:
    return paired_ratio(samples, of_baseline)


def paired_end(name: str) -> Any:
    """A function for `Metric.of`: the field `name` of the ratio within the process."""
    return lambda record: getattr(paired(record), name, None)


def samples(record: Record) -> int:
    """How many steady-state steps were timed."""
    timing = record.measurements.timing
    return 0 if timing is None else len(timing.samples)


def steps_per_second(row: Mapping[str, Any]) -> float | None:
    """One over the median time; None for a median of zero, which is not possible."""
    median = row["median_seconds"]
    return 1 / median if median else None


def device_share(row: Mapping[str, Any]) -> float | None:
    """The share of a step that is waited for in which the device works; the rest is Python's."""
    on_device, median = row["device_seconds"], row["median_seconds"]
    return on_device / median if on_device is not None and median else None


def half_width_percent(row: Mapping[str, Any]) -> float | None:
    """Half of the interval's width in percent of the median; None for one sample, of no width."""
    median = row["median_seconds"] if row["samples"] != 1 else None
    return 50 * (row["high_seconds"] - row["low_seconds"]) / median if median else None


def activation_bytes(record: Record) -> int | None:
    """What a step adds to parameters, optimizer state, batch and decoding state at its peak."""
    memory = record.measurements.memory
    if memory is None or memory.peak is None:
        return None
    return memory.peak - memory.parameters - memory.optimizer - memory.batch - memory.state


COST_METRICS: dict[str, Metric] = {
    "samples": Metric("samples", type="count", of=samples, pool="sum"),
    "median_seconds": Metric(
        "steady", "ms", "lower", significant, 1e3, of=interval_end("value"), pool="median",
        timed=True,
    ),
    "low_seconds": Metric("low", "ms", "lower", scale=1e3, of=interval_end("low"), pool="min"),
    "high_seconds": Metric("high", "ms", "lower", scale=1e3, of=interval_end("high"), pool="max"),
    "calibration_seconds": Metric(
        "calibration", "ms", "lower", significant, 1e3, of=calibration_seconds, pool="median"
    ),
    "core_distance": Metric("core distance", of=core_distance, pool="max"),
    "relative_time": Metric("relative", of=relative_end("value"), pool="median"),
    "relative_low": Metric("relative low", of=relative_end("low"), pool="min"),
    "relative_high": Metric("relative high", of=relative_end("high"), pool="max"),
    "paired_with": Metric(
        "beside", type="text", of=measured("timing", "baseline", "id"),
    ),
    "paired_ratio": Metric("paired ratio", of=paired_end("value"), pool="median"),
    "paired_low": Metric("paired low", of=paired_end("low"), pool="min"),
    "paired_high": Metric("paired high", of=paired_end("high"), pool="max"),
    "steps_per_second": Metric(
        "steps/s", "1/s", "higher", significant, of_row=steps_per_second, timed=True
    ),
    "queued_seconds": Metric(
        "queued", "ms", "lower", significant, 1e3, of=measured("throughput", "seconds"),
        pool="median",
    ),
    "device_seconds": Metric(
        "on device", "ms", "lower", significant, 1e3, of=measured("throughput", "device_seconds"),
        pool="median",
    ),
    "device_share": Metric(
        "busy %", "%", "higher", percent, 100, of_row=device_share
    ),
    "sm_megahertz": Metric(
        "MHz", "MHz", of=measured("throughput", "state", "sm_megahertz"), pool="median"
    ),
    "watts": Metric("W", "W", "lower", of=measured("throughput", "state", "watts"), pool="median"),
    "joules": Metric(
        "J/step", "J", "lower", significant, of=measured("throughput", "joules"), pool="median"
    ),
    "energy_source": Metric("energy by", type="text", of=measured("throughput", "energy_source")),
    "half_width_percent": Metric("±%", "%", "lower", percent, of_row=half_width_percent),
    "build_seconds": Metric(
        "build", "ms", "lower", scale=1e3, of=measured("timing", "build_seconds"), pool="median"
    ),
    "compile_seconds": Metric(
        "compile", "ms", "lower", scale=1e3, of=measured("timing", "compile_seconds"),
        pool="median",
    ),
    "first_step_seconds": Metric(
        "first step", "ms", "lower", scale=1e3, of=measured("timing", "first_step_seconds"),
        pool="median",
    ),
    "flops": Metric("FLOPs", "1", "lower", si, type="count", of=measured("flops", "formula")),
    "traced_flops": Metric(
        "traced", "1", "lower", si, type="count", of=measured("flops", "traced")
    ),
    "traced_tool": Metric("traced by", type="text", of=measured("flops", "traced_tool")),
    "uncounted": Metric("uncounted", type="mapping", of=measured("flops", "uncounted")),
    "compiler_flops": Metric("XLA", "1", "lower", si, of=measured("flops", "compiler")),
    "peak_bytes": Metric(
        "MB", BYTES, "lower", significant, 1e-6, "count", of=measured("memory", "peak"), pool="max"
    ),
    "parameter_bytes": Metric(
        "parameters", BYTES, "lower", significant, 1e-6, "count",
        of=measured("memory", "parameters"),
    ),
    "optimizer_bytes": Metric(
        "optimizer", BYTES, "lower", significant, 1e-6, "count", of=measured("memory", "optimizer")
    ),
    "batch_bytes": Metric(
        "batch", BYTES, "lower", significant, 1e-6, "count", of=measured("memory", "batch")
    ),
    "state_bytes": Metric(
        "state", BYTES, "lower", significant, 1e-6, "count", of=measured("memory", "state")
    ),
    "activation_bytes": Metric(
        "activations", BYTES, "lower", significant, 1e-6, "count", of=activation_bytes, pool="max"
    ),
    "planned_bytes": Metric(
        "planned", BYTES, "lower", significant, 1e-6, "count", of=measured("memory", "planned")
    ),
}  # fmt: skip
