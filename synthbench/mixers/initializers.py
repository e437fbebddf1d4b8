"""Start values: drawn in NumPy from a generator, so that both frameworks start bit-identical."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

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


# Above this many values, to draw exact normals would take longer than all else in a cell: a table
# such as R's has billions.
EXACT_UP_TO = 2**22
QUANTILES = 2**16
GOLDEN = 40503  # QUANTILES divided by the golden ratio, and odd
CHUNK = 2**20  # values that a thread draws from one stream
BLOCK = 2**16  # of them at a time: what is between stays in a core's cache

Fill = Callable[[np.random.Generator, Array], None]  # draws into an array


@dataclass(frozen=True)
class Normal:
    """N(0, std^2); above EXACT_UP_TO values, rounded to one of 65,536 quantiles, drawn in pairs."""

    std: float

    def __call__(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        if math.prod(shape) <= EXACT_UP_TO:
            return generator.standard_normal(shape, dtype=np.float32) * np.float32(self.std)
        pairs = normal_pairs() * np.float32(self.std)
        table = pairs.view(np.int64).ravel()  # a pair is taken as one number of eight bytes

        def fill(own: np.random.Generator, part: Array) -> None:
            count = -(-len(part) // 2)
            raw = own.bit_generator.random_raw(-(-count // 4))  # 64 bits: four indices
            indices = raw.astype("<u8", copy=False).view("<u2")[:count]
            if len(part) % 2:
                part[:] = table[indices].view(np.float32)[: len(part)]
            else:
                np.take(table, indices, out=part.view(np.int64), mode="wrap")

        return in_chunks(fill, generator, shape)

    def __str__(self) -> str:
        return f"N(0, {self.std:.4g}^2)"


@dataclass(frozen=True)
class Uniform:
    """U(-bound, bound)."""

    bound: float

    def __call__(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        def fill(own: np.random.Generator, part: Array) -> None:
            own.random(out=part, dtype=np.float32)
            part *= 2
            part -= 1
            part *= np.float32(self.bound)

        return in_chunks(fill, generator, shape)

    def __str__(self) -> str:
        return f"U(-{self.bound:.4g}, {self.bound:.4g})"


def usable_cores() -> int:
    """How many cores this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def in_chunks(fill: Fill, generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A new array of a shape, filled by threads; the same values whatever their number.

    Each chunk has the generator's stream from a point of its own on, the first from where it is.
    """
    drawn = np.empty(math.prod(shape), dtype=np.float32)
    parts = [drawn[begin : begin + CHUNK] for begin in range(0, len(drawn), CHUNK)]
    # All before the first thread begins to draw: that changes the state which the others jump from.
    jumped = [generator.bit_generator.jumped(n) for n in range(1, len(parts))]  # type: ignore[attr-defined]
    generators = [generator, *map(np.random.Generator, jumped)]

    def fill_blocks(own: np.random.Generator, part: Array) -> None:
        for begin in range(0, len(part), BLOCK):
            fill(own, part[begin : begin + BLOCK])

    if len(parts) < 2:
        list(map(fill_blocks, generators, parts))
    else:
        with ThreadPoolExecutor(usable_cores()) as threads:
            list(threads.map(fill_blocks, generators, parts))
    return drawn.reshape(shape)


@cache
def normal_quantiles() -> Array:
    """The quantiles of N(0, 1) in the middle of QUANTILES equal shares, scaled to variance 1."""
    quantile = NormalDist().inv_cdf
    upper = [quantile((n + 0.5) / QUANTILES) for n in range(QUANTILES // 2, QUANTILES)]
    both = np.concatenate([-np.array(upper[::-1]), upper])
    return (both / both.std()).astype(np.float32)


@cache
def normal_pairs() -> Array:
    """QUANTILES pairs of two independent normals; each quantile is once first and once second.

    The second of a pair is where a Weyl sequence of the golden ratio leads from the first, so that
    the pairs fill the plane evenly. One index of 16 bits draws both: half the work of two indices.
    """
    quantiles = normal_quantiles()
    # From the middle, because a lattice through a corner pairs the two lowest quantiles.
    second = (np.arange(QUANTILES) * GOLDEN + QUANTILES // 2) % QUANTILES
    return np.stack([quantiles, quantiles[second]], axis=1)


def xavier(fan_in: int, fan_out: int) -> Uniform:
    """Xavier-uniform of a two-dimensional map fan_in -> fan_out (Glorot and Bengio 2010)."""
    return Uniform((6 / (fan_in + fan_out)) ** 0.5)


ZEROS = Constant(0.0)
ONES = Constant(1.0)
