"""The noise floor: how much two measurements of the same thing differ."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scipy.special import fdtrc, gammaincc

from synthbench.analysis.moderated_variance import FEWEST, prior_variance, shrunk, t_quantile

SHARE = 0.95
# A group as improbable as this among the others, after Bonferroni's correction, stands alone.
OUTLIER = 0.01

K = TypeVar("K", bound=Hashable)  # a group of cells


@dataclass(frozen=True)
class NoiseFloor:
    """The spread of the log ratio of two measurements of the same thing in one round.

    `degrees`: of freedom of that estimate.
    """

    spread: float
    degrees: float

    def ratio(self, rounds: int, share: float = SHARE) -> float:
        """Above 1: such a ratio over so many rounds exceeds it in 1 - `share` of cases."""
        half = t_quantile(self.degrees, (1 + share) / 2) * self.spread / math.sqrt(rounds)
        return math.exp(half)


@dataclass(frozen=True)
class NoiseFloors:
    """The floor of each group, and of a further one without twins; None: too few to tell."""

    of_groups: Mapping[Hashable, NoiseFloor]
    of_others: NoiseFloor | None


def noise_floors(twins: Mapping[K, Sequence[float]]) -> NoiseFloors:
    """The noise floors of groups, from the A/A log ratios of each round.

    Few rounds tell little about one group, so each variance (around 0, which is the true log ratio)
    is shrunk towards that of all groups as far as these agree, as in `comparison.estimate`. A group
    that is improbable among the others keeps its own variance and does not change theirs (in the
    spirit of Phipson et al. 2016, doi:10.1214/16-AOAS920).
    """
    found = {group: values for group, values in twins.items() if len(values)}
    # Rounded once: the order of the rounds must not decide which of two like groups is larger.
    variances = {g: math.fsum(v * v for v in values) / len(values) for g, values in found.items()}
    usual = _without_outliers(variances, {g: len(values) for g, values in found.items()})
    prior, prior_degrees = _prior({g: variances[g] for g in usual}, found)
    most = float(sum(len(found[group]) for group in usual))  # degrees that all of them can give
    floors: dict[Hashable, NoiseFloor] = {}
    for group, variance in variances.items():
        degrees = float(len(found[group]))
        if group in usual:
            variance = shrunk(variance, degrees, (prior, prior_degrees))
            degrees = min(prior_degrees + degrees, most)
        floors[group] = NoiseFloor(math.sqrt(variance), degrees)
    others = NoiseFloor(math.sqrt(prior), min(prior_degrees, most)) if prior_degrees > 0 else None
    if others is None and floors:
        others = max(floors.values(), key=lambda floor: floor.ratio(1))
    return NoiseFloors(floors, others)


def _without_outliers(variances: Mapping[K, float], degrees: Mapping[K, int]) -> list[K]:
    """The groups whose variance is probable, given those of the others; at least three quarters.

    Of groups with the same variance and degrees all are, or none.
    """

    def size(group: K) -> tuple[float, int]:
        return variances[group], degrees[group]

    ordered = usual = sorted(variances, key=size)
    least = math.ceil(3 * len(usual) / 4)
    while len(usual) > max(least, FEWEST):
        *rest, largest = usual
        prior, prior_degrees = prior_variance(
            [variances[g] for g in rest], [degrees[g] for g in rest]
        )
        if prior <= 0:
            break
        relative, n = variances[largest] / prior, degrees[largest]
        if math.isinf(prior_degrees):
            p = float(gammaincc(n / 2, n * relative / 2))
        else:
            p = float(fdtrc(n, prior_degrees, relative))
        if p >= OUTLIER / len(usual):
            break
        usual = rest
    return [group for group in ordered if size(group) <= size(usual[-1])] if usual else []


def _prior(variances: Mapping[K, float], found: Mapping[K, Sequence[float]]) -> tuple[float, float]:
    return prior_variance(list(variances.values()), [len(found[group]) for group in variances])
