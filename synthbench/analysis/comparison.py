"""Compare variants with a baseline: ratio, confidence interval and verdict."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from synthbench.analysis.cell_noise import combined
from synthbench.analysis.clusters import cluster_means, summary_error
from synthbench.analysis.moderated_variance import (
    Moderated,
    p_value,
    prior_variance,
    shrunk,
    t_quantile,
)
from synthbench.analysis.moments import moments_of
from synthbench.analysis.multiple_testing import holm, holm_factors

CONFIDENCE = 0.95
MOST_ROUNDS = 50  # the most further rounds that are considered

Verdict = Literal["faster", "slower", "same", "close", "undecided", "one round"]


class Comparison(NamedTuple):
    """A variant and the baseline, in each round that measured both.

    `log_ratios`: log(time of the baseline / time of the variant); above 0 the variant is faster.
    `within`: the standard error of one log ratio, estimated from the samples within a round.
    `family`: comparisons of one family are about equally noisy, as those of one framework.
    `machines`: what measured each round; empty: one machine measured all. `sides`: the variance of
    one round of the variant and of the baseline, where these are known better than from
    `log_ratios` (`cell_noise.noise_of_cells`).
    """

    log_ratios: tuple[float, ...]
    within: float
    family: str = ""
    machines: tuple[str, ...] = ()
    sides: tuple[Moderated, ...] = ()

    @property
    def independent(self) -> tuple[float, ...]:
        """The log ratios of the rounds of one machine; of several, the mean of each."""
        return cluster_means(self.log_ratios, self.machines)


@dataclass(frozen=True)
class Estimate:
    """The mean log ratio of the rounds, its standard error and degrees of freedom.

    From several `machines`, the mean of their means.
    """

    log_ratio: float
    error: float
    degrees: float  # of freedom
    rounds: int
    machines: int = 1

    @property
    def ratio(self) -> float:
        """Speed relative to the baseline: the geometric mean of the rounds; above 1 is faster."""
        return math.exp(self.log_ratio)

    @property
    def independent(self) -> int:
        """How many independent values it is the mean of: rounds, or machines if several."""
        return self.machines if self.machines > 1 else self.rounds

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The confidence interval of the ratio; from one round, only the noise within it."""
        half = t_quantile(self.degrees, (1 + confidence) / 2) * self.error
        return math.exp(self.log_ratio - half), math.exp(self.log_ratio + half)

    @property
    def p_value(self) -> float:
        """The two-sided p value against no difference."""
        return p_value(self.log_ratio, self.error, self.degrees)


@dataclass(frozen=True)
class Judgement:
    """An estimate with its verdict.

    `p`: the p value, corrected for all comparisons judged together; None from one round. `further`:
    for an undecided one, how many more rounds would decide it, each on a machine of its own where
    several machines measured; None if more than MOST_ROUNDS.
    """

    estimate: Estimate
    verdict: Verdict
    p: float | None = None
    further: int | None = None

    @property
    def reversed(self) -> Judgement:
        """The same ratio seen from the other side."""
        opposite: dict[Verdict, Verdict] = {"faster": "slower", "slower": "faster"}
        return replace(
            self,
            estimate=replace(self.estimate, log_ratio=-self.estimate.log_ratio),
            verdict=opposite.get(self.verdict, self.verdict),
        )


def estimate(comparisons: Sequence[Comparison]) -> list[Estimate]:
    """Estimate every ratio of one table; the errors are estimated together.

    Each round runs in new processes in a new order, so the spread of the rounds includes the noise
    within a process and between processes. Logarithms make twice and half as fast symmetric. Two or
    three rounds estimate their spread badly, so their t interval would be extremely wide. Therefore
    each variance is shrunk towards that of its family, as far as these agree: the moderated t of
    Smyth 2004 (doi:10.2202/1544-6115.1027), which for a single comparison is the ordinary t. No
    variance is less than the noise within a round implies. From one round only the latter is known.

    Where the noise of both `sides` is known, it is taken from there.

    Where several machines measured the rounds, a ratio may differ between machines by more than
    between rounds: then the estimate is `summary_error`'s, from one mean per machine.
    """
    moments = moments_of([comparison.log_ratios for comparison in comparisons])
    families: dict[str, list[tuple[float, int]]] = {}  # variances and their degrees of freedom
    for comparison, (_, variance) in zip(comparisons, moments, strict=True):
        own, rounds = families.setdefault(comparison.family, []), len(comparison.log_ratios)
        if rounds > 1 and len(set(comparison.machines)) < 2 and not comparison.sides:
            own.append((variance, rounds - 1))
    priors = {
        family: (*prior_variance([v for v, _ in own], [d for _, d in own]), sum(d for _, d in own))
        for family, own in families.items()
    }
    found: list[Estimate] = []
    for comparison, (mean, observed) in zip(comparisons, moments, strict=True):
        rounds = len(comparison.log_ratios)
        if len(set(comparison.machines)) > 1:
            means = comparison.independent
            error = summary_error(means, comparison.within, rounds)
            found.append(Estimate(float(np.mean(means)), error, len(means) - 1, rounds, len(means)))
            continue
        if rounds == 1:
            found.append(Estimate(mean, comparison.within, math.inf, 1))
            continue
        if comparison.sides:
            variance, known = combined(comparison.sides)
            error = math.sqrt(max(variance, comparison.within**2) / rounds)
            found.append(Estimate(mean, error, known, rounds))
            continue
        degrees = rounds - 1
        prior, prior_degrees, all_degrees = priors[comparison.family]
        variance = shrunk(observed, degrees, (prior, prior_degrees))
        error = math.sqrt(max(variance, comparison.within**2) / rounds)
        known = min(prior_degrees + degrees, all_degrees)
        found.append(Estimate(mean, error, known, rounds))
    return found


@dataclass(frozen=True)
class Rule:
    """What a verdict needs, beside the margins; shares and ratios above 1.

    `looks`: how often verdicts may be asked for while rounds are added until they are there. Each
    look has an equal part of the error, so that the probability of a false verdict at any of them
    is at most 1 - `confidence` (Bonferroni's inequality; a group-sequential design with constant
    levels as Pocock 1977, doi:10.1093/biomet/64.2.191, with a bound that no dependence can break).
    """

    confidence: float = CONFIDENCE
    looks: int = 1
    resolution: float = 0.0
    same_within: float | None = None  # None: the margin


def judge(
    comparisons: Sequence[Comparison], margins: float | Sequence[float], rule: Rule | None = None
) -> list[Judgement]:
    """A verdict for each comparison of one table; `margins`, of all or of each, are ratios above 1.

    "faster", "slower": the ratio differs from 1 by more than the margin, and significantly after
    Holm's correction for all comparisons. "same": its interval lies within `same_within`, which
    noise does not widen. "close": neither, but its interval is at most `resolution` to either side
    of the ratio and not wholly beyond the margin, and the noise that the margin stands for is at
    most `resolution` or `same_within`, whichever is more. Otherwise "undecided": among these is
    what is wholly beyond the margin and not significant after the correction or for the looks,
    because more rounds decide it. "one round": the noise between processes is not known.
    """
    return judge_estimates(estimate(comparisons), margins, rule)


def judge_estimates(
    estimates: Sequence[Estimate], margins: float | Sequence[float], rule: Rule | None = None
) -> list[Judgement]:
    """`judge`, for estimates that were made together."""
    rule = rule or Rule()
    tested = [e for e in estimates if e.rounds > 1]
    p_values = [e.p_value for e in tested]
    corrected = iter(zip(holm(p_values), holm_factors(p_values), strict=True))
    alpha = (1 - rule.confidence) / rule.looks
    each = [margins] * len(estimates) if isinstance(margins, float | int) else margins
    known, judged = 1 + rule.resolution, list[Judgement]()
    for found, margin in zip(estimates, each, strict=True):
        limit, same = math.log(margin), rule.same_within or margin
        if found.rounds == 1:
            judged.append(Judgement(found, "one round"))
            continue
        p, factor = next(corrected)
        low, high = found.interval(1 - alpha)
        if p < alpha and abs(found.log_ratio) > limit:
            judged.append(Judgement(found, "faster" if found.log_ratio > 0 else "slower", p))
        elif 1 / same < low and high < same:
            judged.append(Judgement(found, "same", p))
        elif (
            high <= found.ratio * known
            and margin <= max(same, known)
            and _reaches(found.interval(rule.confidence), margin)
        ):
            judged.append(Judgement(found, "close", p))
        else:
            room = limit if abs(found.log_ratio) > limit else math.log(same)
            further = further_rounds(found, room, alpha / factor, alpha, noise=limit)
            judged.append(Judgement(found, "undecided", p, further))
    return judged


def _reaches(interval: tuple[float, float], margin: float) -> bool:
    """Whether a part of the interval lies within the margin."""
    low, high = interval
    return low <= margin and high >= 1 / margin


def further_rounds(
    found: Estimate, limit: float, alpha: float, alpha_same: float, noise: float = 0.0
) -> int | None:
    """How many more rounds would decide, if log ratio and spread stay the same.

    A log ratio beyond `limit` is decided once it differs from 0 at level `alpha` and is beyond the
    `noise`, which falls as the error of a mean does; a smaller one, once its interval at
    1 - `alpha_same` lies within the limit. None if MOST_ROUNDS more are not enough. Of several
    machines, each further round is one on a further machine: more rounds on the same ones do not
    tell how machines differ.
    """
    size = abs(found.log_ratio)
    room, level = (size, alpha) if size > limit else (limit - size, alpha_same)
    spread = found.error * math.sqrt(found.independent)

    def is_enough(more: int) -> bool:
        left = math.sqrt(found.independent / (found.independent + more))  # of the noise
        if size > limit and noise > limit and noise * left >= size:
            return False
        half = t_quantile(found.degrees + more, 1 - level / 2) * spread
        return half / math.sqrt(found.independent + more) < room

    # Interval and noise only become smaller, so the first that is enough is found by bisection.
    first = bisect_left(range(1, MOST_ROUNDS + 1), True, key=is_enough) + 1
    return first if first <= MOST_ROUNDS else None
