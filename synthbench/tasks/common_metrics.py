"""The metrics that the harness records of every cell, whatever its task."""

from __future__ import annotations

from synthbench.metrics import Metric, full_integer, measured, scientific, si, significant
from synthbench.record import Record

BYTES = "10^6 bytes"


def warnings(record: Record) -> str:
    """The warnings of a record in one text; empty if there are none."""
    return "; ".join(record.measurements.warnings)


def kernels(record: Record) -> str:
    """The kernels that the form used; empty if there was nothing to choose."""
    return ", ".join(record.measurements.kernels)


def missing(record: Record) -> dict[str, str] | None:
    """Metric -> why it is empty, where there is no counter for it; None if there is none such."""
    return record.measurements.missing or None


COMMON_METRICS: dict[str, Metric] = {
    "wall_seconds": Metric("cell", "s", "lower", of=lambda record: record.wall_seconds),
    "parameters": Metric("parameters", "1", "lower", si, type="count", of=measured("parameters")),
    "constants": Metric(
        "constants", "1", "lower", full_integer, type="count", of=measured("constants")
    ),
    "declared_parameters": Metric(
        "declared", "1", "lower", full_integer, type="count", of=measured("declared_parameters")
    ),
    "predicted_bytes": Metric(
        "predicted", BYTES, "lower", significant, 1e-6, "count",
        of=measured("predicted_memory", "bytes"),
    ),
    "predicted_tool": Metric(
        "predicted by", type="text", of=measured("predicted_memory", "tool")
    ),
    "parity_against": Metric(
        "against", type="text", of=measured("parity", "against"), pool="join"
    ),
    "parity_forward": Metric(
        "error", "1", "lower", scientific, of=measured("parity", "forward"), pool="max"
    ),
    "parity_gradient": Metric(
        "error", "1", "lower", scientific, of=measured("parity", "gradient"), pool="max"
    ),
    "parity_tolerance": Metric(
        "tolerance", format=scientific, of=measured("parity", "tolerance"), pool="max"
    ),
    "parity_gradient_tolerance": Metric(
        "tolerance", format=scientific, of=measured("parity", "gradient_tolerance"), pool="max"
    ),
    "parity_passed": Metric(
        "passed", type="flag", of=measured("parity", "passed"), pool="min"  # not if any failed
    ),
    "encoder_spread": Metric("spread of encoder weights"),  # of trainings with the option spread
    "decoder_spread": Metric("spread of decoder weights"),
    "built_form": Metric("form", type="text", of=measured("form")),
    "kernels": Metric("kernels", type="text", of=kernels),
    "missing": Metric("missing", type="mapping", of=missing),
    "warnings": Metric("warnings", type="text", of=warnings, pool="join"),
}  # fmt: skip
