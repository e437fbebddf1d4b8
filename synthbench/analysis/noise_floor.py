"""The noise floor: how much two measurements of the same thing differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NoiseFloor:
    """The largest usual ratio of two measurements of the same thing.

    Another such ratio lies within `ratio` with probability `coverage`.
    """

    ratio: float  # above 1
    groups: int
    coverage: float


def noise_floor(log_ratios: Sequence[float], share: float = 0.95) -> NoiseFloor | None:
    """The noise floor from the A/A log ratios of a run, one per group; None without any.

    The smallest observed size that another one does not exceed with probability `share`; for 95%,
    that needs 19 groups. With fewer groups it is the largest observed size, and n groups cover only
    n / (n + 1). Exact for exchangeable groups (an order statistic of n + 1 draws).
    """
    sizes = sorted(abs(value) for value in log_ratios)
    if not sizes:
        return None
    n = len(sizes)
    rank = min(math.ceil(share * (n + 1)), n)
    return NoiseFloor(math.exp(sizes[rank - 1]), n, rank / (n + 1))
