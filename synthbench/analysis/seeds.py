"""Compare variants over seeds: mean, confidence interval, difference to the baseline, verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from synthbench.analysis.comparison import CONFIDENCE
from synthbench.analysis.learning import Better
from synthbench.analysis.moderated_variance import p_value, t_quantile
from synthbench.analysis.multiple_testing import holm

Verdict = Literal["better", "worse", "same", "undecided", "one seed"]

Bounds = tuple[float, float]
UNBOUNDED: Bounds = (-math.inf, math.inf)
ROUNDING = 1e-12  # a smaller spread, as a share of the mean, is that of floating point


@dataclass(frozen=True)
class Estimate:
    """The mean over seeds, its standard error and degrees of freedom; no error from one seed.

    `bounds`: between them lies every value, and so the true mean.
    """

    mean: float
    error: float | None
    degrees: float
    seeds: int
    bounds: Bounds = UNBOUNDED

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """The confidence interval by Student's t, cut off at the bounds; None from one seed.

        What is cut off cannot contain the true mean, so the confidence stays the same.
        """
        if self.error is None:
            return None
        half = t_quantile(self.degrees, (1 + confidence) / 2) * self.error
        lower, upper = self.bounds
        low, high = max(self.mean - half, lower), min(self.mean + half, upper)
        return min(low, self.mean), max(high, self.mean)

    @property
    def p_value(self) -> float | None:
        """The two-sided p value against a mean of zero; None from one seed.

        1 for two equal values: of a metric with few values, such as the accuracy on few examples,
        two are equal by chance, and say nothing of the spread.
        """
        if self.error is None:
            return None
        if self.seeds == 2 and self.error <= ROUNDING * abs(self.mean):
            return 1.0
        return p_value(self.mean, self.error, self.degrees)


class Comparison(NamedTuple):
    """Differences of a variant to the baseline, one per seed that has both.

    `margin`: a smaller difference is not relevant, in the unit of the metric. A `family` is what a
    reader compares at once: the variants of one task and framework with the baseline, at equal
    steps, time or FLOPs. It shares its error. `bounds`: those of a difference.
    """

    differences: tuple[float, ...]
    better: Better
    margin: float = 0.0
    family: str = ""
    bounds: Bounds = UNBOUNDED


@dataclass(frozen=True)
class Judgement:
    """An estimate with its verdict; `p`: corrected for its family, None from one seed."""

    estimate: Estimate
    verdict: Verdict
    p: float | None = None

    @property
    def reversed(self) -> Judgement:
        """The same difference seen from the other side."""
        opposite: dict[Verdict, Verdict] = {"better": "worse", "worse": "better"}
        low, high = self.estimate.bounds
        return replace(
            self,
            estimate=replace(self.estimate, mean=-self.estimate.mean, bounds=(-high, -low)),
            verdict=opposite.get(self.verdict, self.verdict),
        )


def paired(variant: Mapping[int, float], baseline: Mapping[int, float]) -> tuple[float, ...]:
    """The differences within each seed that has both values."""
    return tuple(variant[seed] - baseline[seed] for seed in sorted(variant.keys() & baseline))


def mean_over_seeds(values: Sequence[float], bounds: Bounds = UNBOUNDED) -> Estimate:
    """The mean of some seeds with its t interval, from these seeds alone.

    So every table and claim gives the same mean the same interval, whatever stands beside it. The
    variances of variants are not moderated as those of rounds are (`comparison.estimate`): a
    variant that solves a task has a far smaller spread than one that does not. Raises ValueError
    without values.
    """
    if not values:
        raise ValueError("no seeds to take a mean of")
    mean, seeds = float(np.mean(values)), len(values)
    if seeds == 1:
        return Estimate(mean, None, 0.0, 1, bounds)
    error = math.sqrt(float(np.var(values, ddof=1)) / seeds)
    return Estimate(mean, error, float(seeds - 1), seeds, bounds)


def judge(comparisons: Sequence[Comparison], confidence: float = CONFIDENCE) -> list[Judgement]:
    """A verdict for each comparison, in the given order; each family is judged by itself.

    "better", "worse": the mean difference is beyond the margin, and differs from 0 significantly
    after Holm's correction for all comparisons of its family. "same": its interval lies within the
    margin, with Bonferroni's correction for the same comparisons. So at most 1 - `confidence` of
    the families hold a false verdict, however their comparisons depend on each other. Otherwise
    "undecided". "one seed": the spread over seeds is not known.
    """
    judged: dict[int, Judgement] = {}
    for family in {one.family for one in comparisons}:
        at = [number for number, one in enumerate(comparisons) if one.family == family]
        found = [mean_over_seeds(c.differences, c.bounds) for c in map(comparisons.__getitem__, at)]
        corrected = holm([p for one in found if (p := one.p_value) is not None])
        remaining, error = iter(corrected), (1 - confidence) / max(len(corrected), 1)
        for number, one in zip(at, found, strict=True):
            p, interval = None if one.p_value is None else next(remaining), one.interval(1 - error)
            verdict: Verdict = "one seed"
            if p is not None and interval is not None:
                verdict = _verdict(comparisons[number], one.mean, p < 1 - confidence, interval)
            judged[number] = Judgement(one, verdict, p)
    return [judged[number] for number in range(len(comparisons))]


def _verdict(
    comparison: Comparison, mean: float, is_certain: bool, interval: tuple[float, float]
) -> Verdict:
    margin = comparison.margin
    if is_certain and abs(mean) > margin:
        is_better = (mean > 0) == (comparison.better == "higher")
        return "better" if is_better else "worse"
    return "same" if -margin <= interval[0] and interval[1] <= margin else "undecided"
