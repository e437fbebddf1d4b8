"""The noise floor: how far apart two measurements of the same thing get."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NoiseFloor:
    """How far from 1 the ratio of two measurements of the same thing gets.

    A further such ratio stays below `ratio` - 1 with probability `coverage`.
    """

    ratio: float  # above 1
    groups: int
    coverage: float


def noise_floor(log_ratios: Sequence[float], share: float = 0.95) -> NoiseFloor | None:
    """The noise floor from the A/A log ratios of a run, one a group; None without any.

    It is the smallest of the observed sizes below which a further one stays with probability
    `share`; that takes 19 groups for 95%. With fewer it is the largest seen, and n groups cover
    only n / (n + 1). Exact for exchangeable groups (an order statistic of n + 1 draws).
    """
    sizes = sorted(abs(value) for value in log_ratios)
    if not sizes:
        return None
    n = len(sizes)
    rank = min(math.ceil(share * (n + 1)), n)
    return NoiseFloor(math.exp(sizes[rank - 1]), n, rank / (n + 1))
