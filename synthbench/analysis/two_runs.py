"""Compare the same cells in two runs: ratio, confidence interval and verdict.

Two runs are not paired: their rounds are different processes at different times, so round 1 of one
has nothing in common with round 1 of the other. Their costs are two independent samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from synthbench.analysis.clusters import summary_error
from synthbench.analysis.comparison import (
    CONFIDENCE,
    Estimate,
    Judgement,
    Rule,
    Verdict,
    judge_estimates,
)
from synthbench.analysis.moderated_variance import Moderated, moderated
from synthbench.analysis.scaling import Crossing, crossing

Agreement = Literal["agree", "differ", "contradict", "undecided"]
DECIDED = ("faster", "slower", "same")


class Sample(NamedTuple):
    """A cell in one run.

    `logs`: log(cost), one per round. `within`: the standard error of one of them, estimated from
    the samples within a round. `machines`: what measured each round; empty: one machine.
    """

    logs: tuple[float, ...]
    within: float
    machines: tuple[str, ...] = ()

    @property
    def by_machine(self) -> dict[str, float]:
        """The mean of the rounds of each machine."""
        names = self.machines or ("",) * len(self.logs)
        return {
            name: float(np.mean([log for log, own in zip(self.logs, names, strict=True)
                                 if own == name]))
            for name in sorted(set(names))
        }  # fmt: skip

    @property
    def independent(self) -> int:
        """How many independent values it has: rounds, or machines if several."""
        return len(set(self.machines)) if len(set(self.machines)) > 1 else len(self.logs)


class Pair(NamedTuple):
    """The same cell in two runs; those of one family are about equally noisy."""

    first: Sample
    second: Sample
    family: str = ""


class Series(NamedTuple):
    """The speed of a variant relative to the baseline, at each length; one estimate per length."""

    lengths: tuple[int, ...]
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True)
class CrossingPair:
    """The crossing of a variant in two runs, and whether it moved; None: not known."""

    first: Crossing
    second: Crossing
    moved: bool | None


def estimate_pairs(pairs: Sequence[Pair]) -> list[Estimate]:
    """How many times as fast each cell is in the second run; the errors are estimated together.

    Welch's t interval for the difference of the mean logarithms: the two runs may be differently
    noisy. The variance of a cell in a run is shrunk towards that of its family in this run
    (see `comparison.estimate`), and is not less than the noise within a round implies. Where a
    run has one round, only the latter is known. `rounds` is the smaller number of rounds.

    Where the same several machines measured a cell in both runs, what a machine adds to all its
    rounds is in both: then there is one ratio per machine, and `clusters.summary_error` is its
    error. Raises ValueError for a cell that other machines measured in the second run.
    """
    alone = [pair for pair in pairs if not _on_several_machines(pair)]
    families = [pair.family for pair in alone]
    errors = zip(
        _errors([pair.first for pair in alone], families),
        _errors([pair.second for pair in alone], families),
        strict=True,
    )
    found: list[Estimate] = []
    for pair in pairs:
        rounds = min(len(pair.first.logs), len(pair.second.logs))
        if _on_several_machines(pair):
            found.append(_by_machine(pair, rounds))
            continue
        first, second = next(errors)
        log_ratio = float(np.mean(pair.first.logs) - np.mean(pair.second.logs))
        squares = first.square + second.square
        degrees = math.inf if rounds == 1 else _welch_degrees(first, second)
        found.append(Estimate(log_ratio, math.sqrt(squares), degrees, rounds))
    return found


def _on_several_machines(pair: Pair) -> bool:
    return max(len(set(sample.machines)) for sample in pair[:2]) > 1


def _by_machine(pair: Pair, rounds: int) -> Estimate:
    """The mean of the ratios of the machines; raises ValueError unless both runs have the same."""
    first, second = pair.first.by_machine, pair.second.by_machine
    if first.keys() != second.keys():
        raise ValueError(f"measured by {', '.join(first)} and then by {', '.join(second)}")
    ratios = [first[name] - second[name] for name in first]
    within = math.sqrt(sum(sample.within**2 / len(sample.logs) for sample in pair[:2]))
    error = summary_error(ratios, within, values=1)
    return Estimate(float(np.mean(ratios)), error, len(ratios) - 1, rounds, len(ratios))


def judge_pairs(
    pairs: Sequence[Pair], margins: float | Sequence[float], rule: Rule | None = None
) -> list[Judgement]:
    """A verdict on the second run for each cell, all judged together.

    The arguments and the verdicts mean what those of `comparison.judge` mean.
    """
    return judge_estimates(estimate_pairs(pairs), margins, rule)


def agreement(first: Verdict, second: Verdict) -> Agreement:
    """Whether two runs conclude the same about a variant and the baseline.

    "contradict": faster in one and slower in the other. "differ": one finds a difference that is
    within the margin of the other. "undecided": at least one has no verdict.
    """
    if first not in DECIDED or second not in DECIDED:
        return "undecided"
    if first == second:
        return "agree"
    return "differ" if "same" in (first, second) else "contradict"


def compare_crossings(
    pairs: Sequence[tuple[Series, Series]], confidence: float = CONFIDENCE
) -> list[CrossingPair]:
    """The crossing of each variant in both runs, and whether it moved beyond its intervals.

    Moved: the intervals of the two runs do not overlap, even at a confidence that is corrected for
    all the crossings compared (Bonferroni). Not known where a length has one round in a run: then
    the intervals lack the noise between processes.
    """
    strict = 1 - (1 - confidence) / max(len(pairs), 1)
    found: list[CrossingPair] = []
    for first, second in pairs:
        one, other = (crossing(*series, confidence=confidence) for series in (first, second))
        # Both in the direction of a crossing, if one of them has one.
        kinds = [c.kind for c in (one, other) if c.kind in ("overtakes", "falls behind")]
        rises = not kinds or kinds[0] == "overtakes"
        a, b = (crossing(*s, confidence=strict, rises=rises) for s in (first, second))
        moved: bool | None = a.high < b.low or b.high < a.low
        if any(e.rounds == 1 for series in (first, second) for e in series.estimates):
            moved = None
        found.append(CrossingPair(one, other, moved))
    return found


class _Error(NamedTuple):
    """The squared standard error of a mean logarithm, and its degrees of freedom."""

    square: float
    degrees: float


def _errors(samples: Sequence[Sample], families: Sequence[str]) -> list[_Error]:
    spread = {
        family: iter(_moderated([s for s, own in zip(samples, families, strict=True)
                                 if own == family and len(s.logs) > 1]))
        for family in set(families)
    }  # fmt: skip
    found: list[_Error] = []
    for sample, family in zip(samples, families, strict=True):
        if len(sample.logs) == 1:
            found.append(_Error(sample.within**2, math.inf))
            continue
        variance, degrees = next(spread[family])
        found.append(_Error(max(variance, sample.within**2) / len(sample.logs), degrees))
    return found


def _moderated(samples: Sequence[Sample]) -> list[Moderated]:
    variances = [float(np.var(sample.logs, ddof=1)) for sample in samples]
    return moderated(variances, [len(sample.logs) - 1 for sample in samples])


def _welch_degrees(first: _Error, second: _Error) -> float:
    """The degrees of freedom of Welch and Satterthwaite."""
    total = first.square + second.square
    if total == 0:
        return first.degrees + second.degrees
    if math.isinf(total):  # of samples that took 0 s; then any interval is infinitely wide
        return min(first.degrees, second.degrees)
    shares = (first.square / total, second.square / total)
    return 1 / (shares[0] ** 2 / first.degrees + shares[1] ** 2 / second.degrees)
