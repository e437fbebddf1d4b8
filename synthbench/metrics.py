"""What a metric is: its label, unit, format, better direction, and how records give its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from synthbench.errors import ResultsError, quote
from synthbench.record import Record

Better = Literal["higher", "lower", "neither"]
Type = Literal["count", "number", "text", "flag", "mapping"]
Pool = Literal["first", "median", "max", "min", "sum", "join"]


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits without an exponent: 0.0123, 1.23, 12.3, 1234."""
    if value == 0:
        return "0"
    text = f"{value:#.{digits}g}"
    if "e" not in text:  # from 0.0001 to 999 for three digits, and it is half as much work
        return text.rstrip(".")
    if not 1e-6 <= abs(value) < 1e12:
        return f"{value:.{digits - 1}e}"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


@dataclass(frozen=True)
class Metric:
    """One metric; a task declares its metrics by name in `Task.metrics`.

    The frame, the tables, CSV, Parquet and the other exports follow from this declaration alone.
    """

    label: str  # the heading of its column in a table
    unit: str = "1"
    better: Better = "neither"
    format: Callable[[float], str] = significant  # prints a number that is in `unit`
    scale: float = 1.0  # brings the stored number to `unit`
    type: Type = "number"  # counts are exact integers
    of: Callable[[Record], Any] | None = None
    """Its value in a record, None if it was not measured; default: `task_values`."""
    of_row: Callable[[Mapping[str, Any]], Any] | None = None
    """Instead of `of`: its value from the other metrics of a record, or of pooled rounds."""
    pool: Pool = "first"
    """What represents several rounds. first: the first round with the worst outcome; join: the
    distinct texts."""
    timed: bool = False  # tables mark it where a warning says that the timing was disturbed
    lower_bound: float = -math.inf  # of the stored number: no value is less, and no interval
    upper_bound: float = math.inf

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest number that it can be."""
        return self.lower_bound, self.upper_bound

    @property
    def difference_bounds(self) -> tuple[float, float]:
        """The least and the greatest difference of two such numbers."""
        return self.lower_bound - self.upper_bound, self.upper_bound - self.lower_bound


def task_values(record: Record) -> dict[str, float | None]:
    """What the task of a record measured by itself; of a training, at its last evaluation."""
    training = record.measurements.training
    last = training.evaluations[-1].metrics if training and training.evaluations else {}
    return {**last, **record.measurements.values}


def value_of(name: str, metric: Metric, record: Record) -> Any:
    """The value of a metric in a record; None if it was not measured.

    Raises ResultsError for a count that is not an integer.
    """
    value = metric.of(record) if metric.of else task_values(record).get(name)
    if metric.type != "count" or not isinstance(value, float):
        return value
    if value.is_integer():
        return int(value)
    raise ResultsError(
        f"cell {record.id}: metric {name} is {quote(value)}, which is not an integer; declare it "
        'with type="number" in its task'
    )


def measured(*path: str) -> Callable[[Record], Any]:
    """A function for `Metric.of`: a field of Measurements, None where a part of it is missing."""

    def get(record: Record) -> Any:
        value: Any = record.measurements
        for name in path:
            value = None if value is None else getattr(value, name)
        return value

    return get


def pool_values(how: Pool, values: list[Any], first: Any) -> Any:
    """One value for several rounds; `first` is that of the first round with the worst outcome.

    Values that are None do not count; None if there is no other.
    """
    if how == "first":
        return first
    known = [value for value in values if value is not None]
    if how == "join":
        return "; ".join(dict.fromkeys(text for text in known if text))
    if not known:
        return None
    if how == "median":
        return _median(known)
    if how == "sum":
        return sum(known)
    return max(known) if how == "max" else min(known)


def _median(values: list[float]) -> float:
    ordered, middle = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def si(value: float) -> str:
    """Four significant digits with a decimal prefix: 950, 131.1k, 1.074G."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.99995:
            return significant(value / factor, 4) + prefix
    return f"{value:.0f}" if value == int(value) else significant(value, 4)


def four_digits(value: float) -> str:
    """Four significant digits without a prefix: 0.9981, 3.452."""
    return significant(value, 4)


def full_integer(value: float) -> str:
    """An integer with all digits and thousands separators: 1,048,576."""
    return f"{int(value):,}"


def scientific(value: float) -> str:
    """Two significant digits with an exponent: 3.1e-07; an exact zero is 0."""
    return f"{value:.1e}" if value else "0"


def two_decimals(value: float) -> str:
    """Two decimals."""
    return f"{value:.2f}"


def percent(value: float) -> str:
    """One decimal below 100, none above."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
