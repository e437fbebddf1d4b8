"""Estimate the variances of many small groups together (Smyth 2004; Wright and Simon 2003)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, ndtri, stdtr, stdtrit

FEWEST = 3  # variances of a family, to estimate how much they differ
SMALLEST = 1e-5  # of the median variance; what is less is rounding, and is taken as this
LEAST = 1e-100  # of the largest; ratios of two variances are finite
# The degrees of freedom that a prior can have, in steps of 5%. With the fewest, groups say almost
# nothing of each other; infinitely many are considered too.
PRIOR_DEGREES = np.geomspace(0.1, 1000, 190)
COARSE = 9  # steps at a time, to find about where the largest likelihood is
ALIKE = 1e-6  # log likelihoods that differ by less; the most degrees of these are taken
TOLERANCE = 1e-12  # of the logarithm of a variance
MOST_STEPS = 200  # of Newton's method; it takes about ten

Floats = NDArray[np.float64]
Prior = tuple[float, float]  # a variance, and its degrees of freedom
NO_PRIOR: Prior = (0.0, 0.0)


class Variances(NamedTuple):
    """The sample variances of some groups, and the degrees of freedom of each."""

    values: Sequence[float]
    degrees: Sequence[int]


class Moderated(NamedTuple):
    """A variance shrunk towards that of all groups, and its degrees of freedom."""

    variance: float
    degrees: float


def prior_variance(variances: Sequence[float], degrees: Sequence[int]) -> Prior:
    """The common (prior) variance of all groups, and its degrees of freedom.

    The true variances are assumed to follow a scaled inverse chi-square distribution: then each
    sample variance over the common one follows an F distribution. Its scale and its second degrees
    of freedom are those of the largest likelihood (Wright and Simon 2003,
    doi:10.1093/bioinformatics/btg345). Infinite degrees: the groups differ no more than by chance.
    NO_PRIOR from fewer than FEWEST groups with a variance above 0.

    Smyth 2004 has the moments of log variances instead. With two rounds, these depend most on the
    groups whose rounds are alike by chance, and the degrees differ widely from run to run.
    """
    return shared_priors([Variances(variances, degrees)])[0]


def shared_priors(families: Sequence[Variances], most: float = math.inf) -> list[Prior]:
    """`prior_variance` of each family, with degrees of freedom that all of them share.

    Families then differ in their common variance, but not in how much groups differ within one,
    which needs more groups than one family has. `most`: degrees of freedom that are considered.
    """
    positive = [_positive(family) for family in families]
    used = [family for family in positive if len(family[0]) >= FEWEST]
    if not used:
        return [NO_PRIOR] * len(families)
    candidates = np.append(PRIOR_DEGREES, math.inf)
    candidates = candidates[candidates <= most]
    coarse = np.unique([*range(0, len(candidates), COARSE), len(candidates) - 1])
    near = coarse[_best(used, candidates[coarse])]
    candidates = candidates[max(near - COARSE, 0) : near + COARSE + 1]
    best = candidates[_best(used, candidates)]
    found = iter(float(_likely_scales(*family, np.array([best]))[0]) for family in used)
    return [
        (next(found), float(best)) if len(values) >= FEWEST else NO_PRIOR for values, _ in positive
    ]


def _best(families: Sequence[tuple[Floats, Floats]], candidates: Floats) -> int:
    """Which prior degrees of freedom have the largest likelihood; of equal ones the most."""
    likelihoods = [
        _log_likelihoods(*family, candidates, _likely_scales(*family, candidates))
        for family in families
    ]
    together = np.sum(likelihoods, axis=0)
    return int(np.flatnonzero(together >= together.max() - ALIKE)[-1])


def moderated(variances: Sequence[float], degrees: Sequence[int]) -> list[Moderated]:
    """Each variance, shrunk towards the prior as far as the groups agree; in the given order."""
    return moderated_families([Variances(variances, degrees)])[0]


def moderated_families(
    families: Sequence[Variances], most: float = math.inf
) -> list[list[Moderated]]:
    """`moderated` of each family, with the priors of `shared_priors`."""
    found: list[list[Moderated]] = []
    priors = shared_priors(families, most)
    for family, (prior, prior_degrees) in zip(families, priors, strict=True):
        all_degrees = sum(family.degrees)
        found.append(
            [
                Moderated(
                    shrunk(observed, own, (prior, prior_degrees)),
                    min(prior_degrees + own, all_degrees),
                )
                for observed, own in zip(*family, strict=True)
            ]
        )
    return found


def shrunk(observed: float, degrees: float, prior: Prior) -> float:
    """A variance of so many degrees of freedom, shrunk towards a prior (Smyth 2004, section 3)."""
    variance, prior_degrees = prior
    if math.isinf(prior_degrees):
        return variance
    return (prior_degrees * variance + degrees * observed) / (prior_degrees + degrees)


def _positive(family: Variances) -> tuple[Floats, Floats]:
    """The variances above 0, at least SMALLEST and LEAST, and their degrees of freedom."""
    values, degrees = (np.array([*column], dtype=np.float64) for column in family)
    values, degrees = values[values > 0], degrees[values > 0]
    if not len(values):
        return values, degrees
    least = max(SMALLEST * float(np.median(values)), LEAST * float(values.max()))
    return np.maximum(values, least), degrees


def _likely_scales(values: Floats, degrees: Floats, prior_degrees: Floats) -> Floats:
    """The common variance of the largest likelihood, for each of some prior degrees of freedom.

    The sum of (d0 + d) w is that of d there, with w = d v / (d0 scale + d v) of each variance v;
    the root is between the least and the largest variance. For infinite d0 it is their mean.
    """
    total = degrees.sum()
    prior = np.where(np.isinf(prior_degrees), 1.0, prior_degrees)[:, None]
    low, high = (np.full(len(prior), math.log(side)) for side in (values.min(), values.max()))
    logs = (low + high) / 2
    for _ in range(MOST_STEPS):
        weights = degrees * values / (prior * np.exp(logs)[:, None] + degrees * values)
        above = ((prior + degrees) * weights).sum(axis=1) - total  # falls with the scale
        low, high = np.where(above > 0, logs, low), np.where(above > 0, high, logs)
        slope = ((prior + degrees) * weights * (1 - weights)).sum(axis=1)
        newton = logs + above / slope
        inside = (newton >= low) & (newton <= high)
        before, logs = logs, np.where(inside, newton, (low + high) / 2)
        if np.abs(logs - before).max() < TOLERANCE:
            break
    return np.where(np.isinf(prior_degrees), degrees @ values / total, np.exp(logs))


def _log_likelihoods(
    values: Floats, degrees: Floats, prior_degrees: Floats, scales: Floats
) -> Floats:
    """The log likelihood of a family, for each of some prior degrees of freedom and their scale.

    Without what is the same for all of them. The density is that of F, or of chi-square over its
    degrees of freedom where those of the prior are infinite.
    """
    half, ratios = degrees / 2, values / scales[:, None]
    finite = np.isfinite(prior_degrees)
    found = np.empty(len(prior_degrees))
    prior, relative = prior_degrees[finite][:, None] / 2, ratios[finite]
    found[finite] = (
        half * np.log(half * relative / prior)
        - (half + prior) * np.log1p(half * relative / prior)
        - betaln(half, prior)
    ).sum(axis=1)
    relative = ratios[~finite]
    found[~finite] = (half * np.log(half * relative) - half * relative - gammaln(half)).sum(axis=1)
    return found


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
