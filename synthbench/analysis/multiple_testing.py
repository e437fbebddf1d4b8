"""Holm's correction for several comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """The corrected p values, in the given order (Holm 1979).

    The smallest of n is multiplied by n, the next by n - 1, and so on; each is at least the one
    before it and at most 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    products = (p * holm_factors(p_values))[order]
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(value) for value in corrected]


def holm_factors(p_values: Sequence[float]) -> list[int]:
    """The factor of each p value: n for the smallest of n, 1 for the largest."""
    factors = np.empty(len(p_values), dtype=np.int64)
    factors[np.argsort(p_values, kind="stable")] = np.arange(len(p_values), 0, -1)
    return [int(factor) for factor in factors]
