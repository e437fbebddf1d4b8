"""The range of each option of a training: outside of it, PyTorch and JAX do different things."""

from __future__ import annotations

from typing import Any, NamedTuple

from synthbench.errors import NotationError

LARGEST_NUMBER = 1e30  # more than any training needs, and a float32 holds it


class Range(NamedTuple):
    """Numbers from `least` to `most`."""

    least: float
    most: float = LARGEST_NUMBER
    below: bool = False  # whether `most` itself is left out

    def has(self, value: float) -> bool:
        """Whether a number is in it."""
        return self.least <= value < self.most or (value == self.most and not self.below)

    def __str__(self) -> str:
        if self.most == LARGEST_NUMBER:
            return f"{self.least:g} or more, at most {self.most:g}"
        return f"{self.least:g} to {'below ' * self.below}{self.most:g}"


RANGES = {
    "learning_rate": Range(0),
    "warmup": Range(0, 1),
    "final": Range(0, 1),
    "b1": Range(0, 1, below=True),
    "b2": Range(0, 1, below=True),
    "epsilon": Range(0),
    "weight_decay": Range(0),
    "clip": Range(0),
    "label_smoothing": Range(0, 1),
    "patience": Range(1),
}


def require_ranges(task: Any) -> None:
    """Raise NotationError for an option of a learning task that is out of its range."""
    for option, allowed in RANGES.items():
        value = getattr(task, option)
        if value is not None and not allowed.has(value):
            raise NotationError(f"task {task.name}: {option} is {value}; give it {allowed}")
