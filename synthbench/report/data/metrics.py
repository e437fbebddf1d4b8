"""Each metric once: its label, its unit, how it is printed, which direction is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """A number that tables show: `format` prints it, once `scale` has brought it to `unit`."""

    label: str
    unit: str
    better: Better
    format: Callable[[float], str]
    scale: float = 1.0


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits without an exponent: 0.0123, 1.23, 12.3, 1234."""
    if value == 0:
        return "0"
    if not 1e-6 <= abs(value) < 1e12:
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def si(value: float) -> str:
    """Four significant digits with a decimal prefix: 950, 131.1k, 1.074G."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.99995:
            return significant(value / factor, 4) + prefix
    return f"{value:.0f}" if value == int(value) else significant(value, 4)


def whole(value: float) -> str:
    """An integer in full, thousands apart: 1,048,576."""
    return f"{int(value):,}"


def scientific(value: float) -> str:
    """Two significant digits with an exponent: 3.1e-07; an exact zero is 0."""
    return f"{value:.1e}" if value else "0"


def hundredths(value: float) -> str:
    """Two digits after the point."""
    return f"{value:.2f}"


def percent(value: float) -> str:
    """One digit after the point below a hundred."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


# The key is the column of the frame (report/data/frame.py), or the name of a figure that a table
# derives.
METRICS: dict[str, Metric] = {
    "steps_per_second": Metric("steps/s", "1/s", "higher", significant),
    "half_width_percent": Metric("±%", "%", "lower", percent),
    "utilisation": Metric("util %", "%", "higher", percent, scale=100),
    "break_even_steps": Metric("break-even", "steps", "lower", whole),
    "ratio": Metric("ratio", "1", "higher", significant),
    "exponent": Metric("exponent", "1", "neither", hundredths),
    "length": Metric("length", "1", "neither", significant),
    "peak_bytes": Metric("MB", "10^6 bytes", "lower", significant, scale=1e-6),
    "parameter_bytes": Metric("parameters", "10^6 bytes", "lower", significant, scale=1e-6),
    "optimizer_bytes": Metric("optimizer", "10^6 bytes", "lower", significant, scale=1e-6),
    "batch_bytes": Metric("batch", "10^6 bytes", "lower", significant, scale=1e-6),
    "activation_bytes": Metric("activations", "10^6 bytes", "lower", significant, scale=1e-6),
    "predicted_bytes": Metric("predicted", "10^6 bytes", "lower", significant, scale=1e-6),
    "share": Metric("share", "1", "neither", significant),
    "parameters": Metric("parameters", "1", "lower", si),
    "exact_count": Metric("count", "1", "lower", whole),
    "flops": Metric("FLOPs", "1", "lower", si),
    "build_seconds": Metric("build", "ms", "lower", significant, scale=1e3),
    "compile_seconds": Metric("compile", "ms", "lower", significant, scale=1e3),
    "first_step_seconds": Metric("first step", "ms", "lower", significant, scale=1e3),
    "median_seconds": Metric("steady", "ms", "lower", significant, scale=1e3),
    "relative_error": Metric("error", "1", "lower", scientific),
}
