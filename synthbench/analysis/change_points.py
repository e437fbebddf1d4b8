"""Where the level of a series changes, for many short series together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthbench.analysis.comparison import CONFIDENCE
from synthbench.analysis.moderated_variance import moderated, t_quantile

FEWEST = 4  # values of a series: with fewer, one difference cannot be told from the others
SMALLEST_NOISE = 1e-6  # of a logarithm; less is rounding
# A median absolute deviation is as exact as a standard deviation from this share of the values.
EFFICIENCY = 0.37
TO_SIGMA = 1.4826 / math.sqrt(2)  # from the median size of differences to a standard deviation


def change_points(
    series: Sequence[Sequence[float]], confidence: float = CONFIDENCE
) -> list[list[int]]:
    """For each series, the positions at which its level is another one than just before.

    PELT (Killick 2012, doi:10.1080/01621459.2012.737745) with the sum of squares as its cost. The
    noise of a series is estimated from the median size of its steps, which a few changes do not
    alter, and shrunk towards that of all series. The penalty is such that all series together have
    a false change with probability 1 - `confidence` at most. None in a series of fewer than FEWEST
    values. Raises ModuleNotFoundError without ruptures.
    """
    from ruptures import KernelCPD

    arrays = [np.asarray(values, dtype=np.float64) for values in series]
    long = [values for values in arrays if len(values) >= FEWEST]
    tests = sum(len(values) - 1 for values in long)
    degrees = [max(1, round(EFFICIENCY * (len(values) - 1))) for values in long]
    noise = iter(moderated([_noise(values) ** 2 for values in long], degrees))
    found: list[list[int]] = []
    for values in arrays:
        if len(values) < FEWEST:
            found.append([])
            continue
        variance, known = next(noise)
        sigma = max(math.sqrt(variance), SMALLEST_NOISE)
        penalty = t_quantile(known, 1 - (1 - confidence) / tests / 2) ** 2
        # The linear kernel's cost is the sum of squares; forty times as fast as ruptures.Pelt.
        model = KernelCPD(kernel="linear", min_size=1, jump=1).fit((values / sigma)[:, None])
        found.append([int(at) for at in model.predict(pen=penalty)[:-1]])
    return found


def _noise(values: NDArray[np.float64]) -> float:
    return TO_SIGMA * float(np.median(np.abs(np.diff(values))))
