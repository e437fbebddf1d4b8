"""The speed of every cell compared with the baseline, all judged together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from synthbench.analysis.comparison import Comparison, Judgement, Rule, judge
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.noise import TOO_NOISY, Noise, percentage

Verdicts = Mapping[Key, Judgement | str]  # a text says why a cell cannot be compared


def verdicts_of(grid: Grid, baseline: str, noise: Noise) -> dict[Key, Judgement | str]:
    """The judgement of each variant, and of the A/A twin of the baseline, at each length.

    The correction for many comparisons depends on how many there are. So they are judged once, and
    every table shows the same verdicts, however few rows it has. A setting without the baseline has
    none.
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
    """The verdicts of comparisons that are judged together, each with the margin of its cell.

    Where there is too much noise for any verdict, all are undecided.
    """
    margins = [noise.margin(key, len(one.independent)) for key, one in compared.items()]
    rule = Rule(looks=noise.looks, resolution=noise.resolution, same_within=1 + noise.declared)
    judged = judge(list(compared.values()), margins, rule)
    return [
        dataclasses.replace(one, verdict="undecided", further=None)
        if noise.is_too_high(key, one.estimate.rounds) and one.verdict != "one round"
        else one
        for key, one in zip(compared, judged, strict=True)
    ]


def noise_banner(verdicts: Verdicts, noise: Noise) -> str:
    """What tables and screen begin with where there is too much noise for verdicts; else empty."""
    judged = {
        key: one
        for key, one in verdicts.items()
        if isinstance(one, Judgement) and one.verdict != "one round" and not key.replica
    }
    noisy = [key for key, one in judged.items() if noise.is_too_high(key, one.estimate.rounds)]
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
