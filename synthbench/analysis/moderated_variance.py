"""Estimate the variances of many small groups together (Smyth 2004)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, ndtri, polygamma, stdtr, stdtrit

FEWEST = 3  # variances, to estimate how much they differ
SMALLEST = 1e-5  # of the median variance; less is rounding, and its logarithm would dominate


def prior_variance(variances: Sequence[float], degrees: Sequence[int]) -> tuple[float, float]:
    """The common (prior) variance of all groups, and its degrees of freedom.

    The true variances are assumed to follow a scaled inverse chi-square distribution. Its two
    parameters are fitted to the mean and the variance of the log sample variances (Smyth 2004,
    section 6.2). Infinite degrees: the groups differ no more than by chance. (0, 0), that is no
    prior, from fewer than FEWEST groups.
    """
    positive = [(v, d) for v, d in zip(variances, degrees, strict=True) if v > 0]
    if len(positive) < FEWEST:
        return 0.0, 0.0
    s2 = np.array([v for v, _ in positive])
    s2 = np.maximum(s2, SMALLEST * np.median(s2))
    half = np.array([d for _, d in positive]) / 2
    z = np.log(s2) - digamma(half) + np.log(half)
    excess = float(np.var(z, ddof=1) - np.mean(polygamma(1, half)))
    if excess <= 0:
        return float(np.average(s2, weights=half)), math.inf
    prior_half = trigamma_inverse(excess)
    shift = float(digamma(prior_half)) - math.log(prior_half)
    return math.exp(float(np.mean(z)) + shift), 2 * prior_half


class Moderated(NamedTuple):
    """A variance shrunk towards that of all groups, and its degrees of freedom."""

    variance: float
    degrees: float


def moderated(variances: Sequence[float], degrees: Sequence[int]) -> list[Moderated]:
    """Each variance, shrunk towards the prior as far as the groups agree; in the given order."""
    prior, prior_degrees = prior_variance(variances, degrees)
    most = sum(degrees)
    found: list[Moderated] = []
    for observed, own in zip(variances, degrees, strict=True):
        variance = prior
        if math.isfinite(prior_degrees):
            variance = (prior_degrees * prior + own * observed) / (prior_degrees + own)
        found.append(Moderated(variance, min(prior_degrees + own, most)))
    return found


def trigamma_inverse(value: float) -> float:
    """The x with trigamma(x) = `value` > 0, by Newton's method on the reciprocal."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-10 * x:
            break
    return x


@lru_cache(maxsize=4096)  # most comparisons of a run have the same ones
def t_quantile(degrees: float, probability: float) -> float:
    """A quantile of Student's t; of the normal distribution for infinite degrees of freedom."""
    if math.isinf(degrees):
        return float(ndtri(probability))
    return float(stdtrit(degrees, probability))


def p_value(mean: float, error: float, degrees: float) -> float:
    """The two-sided p value of a mean with this standard error against a mean of zero."""
    if error == 0:
        return float(mean == 0)
    return float(2 * stdtr(min(degrees, 1e6), -abs(mean) / error))
