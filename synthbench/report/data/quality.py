"""What each variant has learned: means over seeds, differences to the baseline, verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthbench.analysis.learning import AXES, Axis
from synthbench.analysis.seeds import Comparison, Estimate, Judgement, judge, paired
from synthbench.report.data.grid import NOT_MEASURED
from synthbench.report.data.trainings import Group, with_other_data

BASELINE = "baseline"  # in place of a difference to itself
NO_BASELINE = "no baseline"
NO_SHARED_SEED = "no shared seed"
OTHER_DATA = "other data"  # than the training it would be compared with
NO_DIRECTION = "no better side"  # the metric does not say which values are better


class At(NamedTuple):
    """Which number of a training is meant: that of a variant at equal cost on this axis."""

    variant: str
    axis: Axis


@dataclass(frozen=True)
class Quality:
    """A group of trainings with its results; a text says why a number is missing."""

    group: Group
    means: Mapping[At, Estimate | str]
    differences: Mapping[At, Judgement | str]  # to the baseline, in the unit of the metric


def qualities_of(groups: Sequence[Group], baseline: str, margin: float) -> list[Quality]:
    """The results of all groups of a run.

    The variants of a group are judged together at each way to make the cost equal. A difference of
    at most `margin`, as a share of the baseline's mean, is not relevant.
    """
    compared: dict[tuple[int, At], Comparison] = {}
    texts: dict[tuple[int, At], str] = {}
    for number, group in enumerate(groups):
        for at in _places(group):
            found = _compare(group, at, baseline, margin, family=f"{number} {at.axis}")
            if isinstance(found, str):
                texts[number, at] = found
            else:
                compared[number, at] = found
    judged = dict(zip(compared, judge(list(compared.values())), strict=True))
    return [
        Quality(
            group,
            _means(group),
            {at: judged.get((number, at)) or texts[number, at] for at in _places(group)},
        )
        for number, group in enumerate(groups)
    ]


def _places(group: Group) -> list[At]:
    return [At(variant, axis) for axis in AXES for variant in group.variants]


def _means(group: Group) -> dict[At, Estimate | str]:
    """The mean of each variant over its seeds."""
    values = {at: list(group.values_at(*at).values()) for at in _places(group)}
    return {
        at: group.mean(found) if found else _why_none(group, at) for at, found in values.items()
    }


def _why_none(group: Group, at: At) -> str:
    problems = group.problems(at.variant)
    every = len(problems) == len(group.seeds)  # else some seed has a result, but not at this cost
    return next(iter(problems.values())) if every and problems else NOT_MEASURED


def _compare(group: Group, at: At, baseline: str, margin: float, family: str) -> Comparison | str:
    if at.variant == baseline:
        return BASELINE
    if baseline not in group.variants:
        return NO_BASELINE
    own, base = group.values_at(*at), group.values_at(baseline, at.axis)
    if not own or not base:
        return _why_none(group, at if not own else at._replace(variant=baseline))
    differ = with_other_data(group.variants[at.variant], group.variants[baseline])
    shared = own.keys() & base.keys() - differ
    if not shared:
        return OTHER_DATA if own.keys() & base.keys() else NO_SHARED_SEED
    base = {seed: base[seed] for seed in shared}
    relevant = margin * abs(float(np.mean(list(base.values()))))
    if group.better is None:
        return NO_DIRECTION
    bounds = group.declared.difference_bounds
    return Comparison(paired(own, base), group.better, relevant, family, bounds)


@dataclass(frozen=True)
class Agreement:
    """The final metric of a variant in both frameworks; a text says why one is missing."""

    first: Group  # torch
    second: Group  # jax
    variant: str
    means: tuple[Estimate | str, Estimate | str]
    difference: Judgement | str  # jax - torch


def agreements_of(groups: Sequence[Group], margin: float) -> list[Agreement]:
    """Each variant that was trained in torch and in jax, compared within each seed at the end.

    Those of one task and length are judged together; "better" and "worse" of such a difference say
    that it is certain.
    """
    by_place = {group.place: group for group in groups}
    pairs = [
        (group, by_place[other])
        for place, group in by_place.items()
        if place.framework == "torch" and (other := place._replace(framework="jax")) in by_place
    ]
    found: list[tuple[Group, Group, str]] = [
        (first, second, variant)
        for first, second in pairs
        for variant in first.variants
        if variant in second.variants
    ]
    compared: dict[int, Comparison] = {}
    texts: dict[int, str] = {}
    for number, (first, second, variant) in enumerate(found):
        finals = [group.final_values(variant) for group in (first, second)]
        differ = with_other_data(first.variants[variant], second.variants[variant])
        values = {seed: value for seed, value in finals[0].items() if seed not in differ}
        differences = paired(finals[1], values)
        if differences:
            relevant = margin * abs(float(np.mean(list(values.values()))))
            bounds = first.declared.difference_bounds
            compared[number] = Comparison(differences, "higher", relevant, str(first.place), bounds)
        elif finals[0].keys() & finals[1].keys():
            texts[number] = OTHER_DATA
        else:
            failed = first if not finals[0] else second
            texts[number] = next(iter(failed.problems(variant).values()), NO_SHARED_SEED)
    judged = dict(zip(compared, judge(list(compared.values())), strict=True))
    return [
        Agreement(
            first,
            second,
            variant,
            (_final_mean(first, variant), _final_mean(second, variant)),
            judged.get(number) or texts[number],
        )
        for number, (first, second, variant) in enumerate(found)
    ]


def _final_mean(group: Group, variant: str) -> Estimate | str:
    values = list(group.final_values(variant).values())
    if not values:
        return next(iter(group.problems(variant).values()), NOT_MEASURED)
    return group.mean(values)
