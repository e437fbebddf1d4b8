"""What one comparison of the two frameworks found."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.learning_equality.settings import Place
from synthbench.mixers.base import Array


@dataclass
class Finding:
    """The differences of a variant at a place; only those in `errors` decide."""

    place: Place
    variant: str
    dtype: str
    tolerance: float
    errors: dict[str, float] = field(default_factory=dict)  # the largest difference of each number
    further: dict[str, float] = field(default_factory=dict)  # those that are not judged
    notes: dict[str, float] = field(default_factory=dict)  # what shows that something was compared
    searched: bool = False  # whether it compares tokens of a search instead of trainings
    skipped: str = ""  # why there is no such training
    problem: str = ""  # what ended it with an error

    @property
    def failed(self) -> bool:
        """Whether there is an error, or a difference above the tolerance; a NaN is one."""
        within = (error <= self.tolerance for error in self.errors.values())
        return bool(self.problem) or not (self.skipped or (self.errors and all(within)))

    @property
    def verdict(self) -> str:
        """One word."""
        return "fail" if self.failed else "not possible" if self.skipped else "pass"

    @property
    def reason(self) -> str:
        """Why it failed or is not possible, in one line."""
        above = [f"{n} differs by {e:.1e}" for n, e in self.errors.items() if e > self.tolerance]
        missing = [f"{n} is not a number" for n, e in self.errors.items() if np.isnan(e)]
        return " ".join((self.problem or self.skipped or "; ".join(above + missing)).split())


def largest(one: Array, other: Array, relative: bool = False) -> float:
    """The largest difference; `relative`: in units of the value where that is above 1."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if one.shape != other.shape or not one.size:
        return float("inf")
    size = np.maximum(1.0, np.abs(one)) if relative else 1.0
    return float(np.max(np.abs(one - other) / size))
