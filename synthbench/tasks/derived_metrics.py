"""Metrics that tables compute from records, and the names that no task may give to its own."""

from __future__ import annotations

from synthbench.metrics import (
    Metric,
    four_digits,
    full_integer,
    percent,
    scientific,
    si,
    significant,
    two_decimals,
)
from synthbench.suites.cell import FLAT_FIELDS

RECORD_FIELDS = ("id", "round", "outcome", "reason")  # columns of the frame that are not metrics

# Not in records: a table computes these, or they print a number like a length or a batch size.
DERIVED: dict[str, Metric] = {
    "utilisation": Metric("util %", "%", "higher", percent, scale=100),
    "scaling_efficiency": Metric(
        "scaling efficiency (same batch) %", "%", "higher", percent, scale=100
    ),
    "break_even_steps": Metric("break-even", "steps", "lower", full_integer),
    "ratio": Metric("ratio", "1", "higher", significant),
    "twin_ratio": Metric("A/A ratio", "1", "neither", significant),
    "noise_ratio": Metric("noise floor", "1", "lower", significant),
    "exponent": Metric("exponent", "1", "neither", two_decimals),
    "length": Metric("length", "1", "neither", significant),
    "share": Metric("share", "1", "neither", significant),
    "exact_count": Metric("count", "1", "lower", full_integer),
    "time_spread": Metric("spread %", "%", "lower", percent, scale=100),
    "far_share": Metric("cores far %", "%", "lower", percent, scale=100),
    "far_ratio": Metric("far over near", "1", "lower", significant),
    "p_value": Metric("p", "1", "neither", significant),
    "relative_error": Metric("error", "1", "lower", scientific),
    # Of trainings. The metric of a task is in the unit that the row names, and the row's metric
    # says which direction is better (`better_in_row`).
    "learned": Metric("mean", "1", "neither", four_digits),
    "learned_difference": Metric("difference", "1", "neither", significant),
    "framework_difference": Metric("difference", "1", "neither", significant),
    "trained_steps": Metric("steps", "1", "lower", four_digits),
    "trained_seconds": Metric("seconds", "s", "lower", four_digits),
    "trained_flops": Metric("FLOPs", "1", "lower", si),
    "trained_tokens": Metric("tokens", "1", "lower", si),
    "learned_loss": Metric("loss", "1", "lower", four_digits),
}

# Columns of the frame that are no metrics, and derived ones.
RESERVED = frozenset({*FLAT_FIELDS, *RECORD_FIELDS, *DERIVED, "rounds"})
