"""Start values: drawn in NumPy from a generator, so that both frameworks start bit-identical."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthbench.mixers.base import Array


@dataclass(frozen=True)
class Constant:
    """Every element the same."""

    value: float

    def __call__(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return np.full(shape, self.value, dtype=np.float32)

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class Normal:
    """N(0, std^2)."""

    std: float

    def __call__(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return generator.standard_normal(shape, dtype=np.float32) * np.float32(self.std)

    def __str__(self) -> str:
        return f"N(0, {self.std:.4g}^2)"


@dataclass(frozen=True)
class Uniform:
    """U(-bound, bound)."""

    bound: float

    def __call__(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        unit = generator.random(shape, dtype=np.float32)
        return (unit * 2 - 1) * np.float32(self.bound)

    def __str__(self) -> str:
        return f"U(-{self.bound:.4g}, {self.bound:.4g})"


def xavier(fan_in: int, fan_out: int) -> Uniform:
    """Xavier-uniform of a two-dimensional map fan_in -> fan_out (Glorot and Bengio 2010)."""
    return Uniform((6 / (fan_in + fan_out)) ** 0.5)


ZEROS = Constant(0.0)
ONES = Constant(1.0)
