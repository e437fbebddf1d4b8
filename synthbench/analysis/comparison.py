"""Ratios to a baseline: an interval from the rounds, and a verdict for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtr

from synthbench.analysis.moderated_variance import prior_variance, t_quantile
from synthbench.analysis.multiple_testing import holm, holm_factors

CONFIDENCE = 0.95
MOST_ROUNDS = 50  # that a forecast looks ahead

Verdict = Literal["faster", "slower", "same", "undecided", "one round"]


class Comparison(NamedTuple):
    """A variant against the baseline, in each round that measured both.

    `log_ratios` are log(time of the baseline / time of the variant): above 0 the variant is faster.
    `within` is the standard error of one of them, as far as the samples inside a round can tell.
    """

    log_ratios: tuple[float, ...]
    within: float


@dataclass(frozen=True)
class Estimate:
    """The mean log ratio of the rounds, its standard error, and what the error rests on."""

    log_ratio: float
    error: float
    degrees: float  # of freedom
    rounds: int

    @property
    def ratio(self) -> float:
        """Speed relative to the baseline, above 1 is faster: the rounds' geometric mean."""
        return math.exp(self.log_ratio)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the ratio lies at that confidence; from one round, what its samples tell alone."""
        half = t_quantile(self.degrees, (1 + confidence) / 2) * self.error
        return math.exp(self.log_ratio - half), math.exp(self.log_ratio + half)

    @property
    def p_value(self) -> float:
        """How probable a ratio this far from 1 would be, were there no difference; two-sided."""
        if self.error == 0:
            return float(self.log_ratio == 0)
        t = abs(self.log_ratio) / self.error
        return float(2 * stdtr(min(self.degrees, 1e6), -t))


@dataclass(frozen=True)
class Judgement:
    """An estimate with its verdict.

    `p` is corrected for all comparisons judged together; None from one round. `further` is how many
    more rounds would decide what is undecided; None where MOST_ROUNDS would not.
    """

    estimate: Estimate
    verdict: Verdict
    p: float | None = None
    further: int | None = None


def estimate(comparisons: Sequence[Comparison]) -> list[Estimate]:
    """Estimate every ratio of one table, the errors of all helping those of each.

    Rounds are new processes in a new order, so the spread of rounds holds all noise, that inside
    a process and that between processes; the log makes twice as fast and half as fast alike. But
    two or three rounds tell their own spread badly, and a t interval from them alone is as good as
    boundless. So each variance is drawn towards that of all comparisons together, as far as these
    agree with each other: the moderated t of Smyth 2004 (doi:10.2202/1544-6115.1027), which for a
    single comparison is the plain t. None is taken below what the samples inside a round imply.
    From one round only the latter is known.
    """
    several = [c for c in comparisons if len(c.log_ratios) > 1]
    variances = [float(np.var(c.log_ratios, ddof=1)) for c in several]
    own_degrees = [len(c.log_ratios) - 1 for c in several]
    prior, prior_degrees = prior_variance(variances, own_degrees)
    found: list[Estimate] = []
    for comparison in comparisons:
        rounds = len(comparison.log_ratios)
        mean = float(np.mean(comparison.log_ratios))
        if rounds == 1:
            found.append(Estimate(mean, comparison.within, math.inf, 1))
            continue
        own, degrees = float(np.var(comparison.log_ratios, ddof=1)), rounds - 1
        variance = prior
        if math.isfinite(prior_degrees):
            variance = (prior_degrees * prior + degrees * own) / (prior_degrees + degrees)
        error = math.sqrt(max(variance, comparison.within**2) / rounds)
        known = min(prior_degrees + degrees, sum(own_degrees))
        found.append(Estimate(mean, error, known, rounds))
    return found


def judge(
    comparisons: Sequence[Comparison], margin: float, confidence: float = CONFIDENCE
) -> list[Judgement]:
    """A verdict for each comparison of one table; `margin` is a ratio above 1.

    "faster" and "slower": the ratio differs from 1 at the asked-for confidence, corrected for all
    comparisons by Holm's method, and by more than the margin. "same": its interval lies inside the
    margin. Else "undecided"; and "one round" where nothing tells one process from another.
    """
    estimates = estimate(comparisons)
    tested = [e for e in estimates if e.rounds > 1]
    p_values = [e.p_value for e in tested]
    corrected = iter(zip(holm(p_values), holm_factors(p_values), strict=True))
    limit, alpha = math.log(margin), 1 - confidence
    judged: list[Judgement] = []
    for found in estimates:
        if found.rounds == 1:
            judged.append(Judgement(found, "one round"))
            continue
        p, factor = next(corrected)
        low, high = found.interval(confidence)
        if p < alpha and abs(found.log_ratio) > limit:
            judged.append(Judgement(found, "faster" if found.log_ratio > 0 else "slower", p))
        elif 1 / margin < low and high < margin:
            judged.append(Judgement(found, "same", p))
        else:
            further = further_rounds(found, limit, alpha / factor, alpha)
            judged.append(Judgement(found, "undecided", p, further))
    return judged


def further_rounds(found: Estimate, limit: float, alpha: float, alpha_same: float) -> int | None:
    """How many more rounds would decide, if the log ratio and the spread of rounds stay as seen.

    A log ratio beyond `limit` is decided where it differs from 0 at level `alpha`, one within where
    its interval at 1 - `alpha_same` fits inside. None where MOST_ROUNDS more would not do.
    """
    size = abs(found.log_ratio)
    room, level = (size, alpha) if size > limit else (limit - size, alpha_same)
    spread = found.error * math.sqrt(found.rounds)
    for more in range(1, MOST_ROUNDS + 1):
        half = t_quantile(found.degrees + more, 1 - level / 2) * spread
        if half / math.sqrt(found.rounds + more) < room:
            return more
    return None
