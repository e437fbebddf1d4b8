"""Holm's correction for several comparisons of one table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values corrected for their number, in the order given (Holm 1979).

    The smallest of n is multiplied by n, the next by n - 1 and so on; none falls below the one
    before it or exceeds 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    products = (p * holm_factors(p_values))[order]
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(products), 1)
    return [float(value) for value in corrected]


def holm_factors(p_values: Sequence[float]) -> list[int]:
    """What Holm multiplies each p value by: their number for the smallest, 1 for the largest."""
    factors = np.empty(len(p_values), dtype=np.int64)
    factors[np.argsort(p_values, kind="stable")] = np.arange(len(p_values), 0, -1)
    return [int(factor) for factor in factors]
