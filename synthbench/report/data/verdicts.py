"""The speed of every cell compared with the baseline, judged with the others of its table."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping

from synthbench.analysis.comparison import (
    Comparison,
    Estimate,
    Judgement,
    Rule,
    estimate,
    judge_estimates,
)
from synthbench.report.data.grid import Grid, Key, group_of
from synthbench.report.data.noise import TOO_NOISY, Noise, percentage

Verdicts = Mapping[Key, Judgement | str]  # a text says why a cell cannot be compared


def verdicts_of(grid: Grid, baseline: str, noise: Noise) -> dict[Key, Judgement | str]:
    """The judgement of each variant, and of the A/A twin of the baseline, at each length.

    They are judged once, and all tables show the same verdicts, however few rows they have. A
    setting without the baseline has none.
    """
    found = {
        key: grid.compare(key, key._replace(variant=baseline, replica=0), baseline)
        for key in grid.keys
        if key.replica == (key.variant == baseline) and baseline in grid.variants(key.setting)
    }
    compared = {key: one for key, one in found.items() if isinstance(one, Comparison)}
    judged = dict(zip(compared, judge_all(compared, noise), strict=True))
    return {key: one if isinstance(one, str) else judged[key] for key, one in found.items()}


def judge_all(compared: Mapping[Key, Comparison], noise: Noise) -> list[Judgement]:
    """The verdicts of comparisons, each with the margin of its cell.

    Their noise is estimated together. The correction for many comparisons is for those of one
    group (`group_of`): the variants that a reader has to choose from. Where there is too much noise
    for any verdict, all are undecided.
    """
    rule = Rule(looks=noise.looks, resolution=noise.resolution, same_within=1 + noise.declared)
    groups: dict[Hashable, list[tuple[Key, Estimate]]] = {}
    for key, found in zip(compared, estimate(list(compared.values())), strict=True):
        groups.setdefault(group_of(key), []).append((key, found))
    judged: dict[Key, Judgement] = {}
    for members in groups.values():
        margins = [noise.margin(key, found.independent) for key, found in members]
        verdicts = judge_estimates([found for _, found in members], margins, rule)
        judged |= {key: one for (key, _), one in zip(members, verdicts, strict=True)}
    return [
        dataclasses.replace(one, verdict="undecided", further=None)
        if noise.is_too_high(key, one.estimate.independent) and one.verdict != "one round"
        else one
        for key, one in ((key, judged[key]) for key in compared)
    ]


def noise_banner(verdicts: Verdicts, noise: Noise) -> str:
    """What tables and screen begin with where there is too much noise for verdicts; else empty."""
    judged = {
        key: one
        for key, one in verdicts.items()
        if isinstance(one, Judgement) and one.verdict != "one round" and not key.replica
    }
    noisy = [key for key, one in judged.items() if noise.is_too_high(key, one.estimate.independent)]
    advice = "Close other programs and measure again."
    if judged and all(one.verdict == "undecided" for one in judged.values()):
        return (
            "NO VERDICTS: there is too much noise to say which variant is faster, and ratios may "
            f"be chance. {advice}"
        )
    if noisy:
        where = dict.fromkeys(f"{key.framework} {key.mode} at {key.seq_len}" for key in noisy)
        return (
            "NO VERDICTS in parts of this run, where the same program twice differs by more than "
            f"{percentage(TOO_NOISY)}: {', '.join(where)}. {advice}"
        )
    return ""
