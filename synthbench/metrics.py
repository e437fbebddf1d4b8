"""What a metric is: its label, its unit, how it is printed, which direction is better."""

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
