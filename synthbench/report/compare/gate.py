"""Conditions that a comparison must not meet, for CI: "slower 5%" and the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from synthbench.errors import NotationError, ResultsError, quote
from synthbench.metrics import significant
from synthbench.report.compare.comparison import CostChange, Measured, RunComparison
from synthbench.report.compare.places import place_name
from synthbench.report.data.noise import percentage

_CONDITION = re.compile(r"(?:(slower|faster)(?: +([0-9.]+)%)?|(memory)(?: +\+([0-9.]+)%)?|"
                        r"(failed|contradiction|any))")  # fmt: skip
_PERCENT = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,6})?")
ADVICE = (
    'write "slower 5%", "faster 5%" or "memory +10%" (without a number: any such verdict), '
    '"failed", "contradiction" or "any"'
)
ONE_ROUND = "one round"


@dataclass(frozen=True)
class Condition:
    """A condition as it was written; `limit`: a ratio that the change must exceed, at least 1."""

    text: str
    kind: str
    limit: float = 1.0


@dataclass(frozen=True)
class Violation:
    """A condition that was met, and by which cells."""

    condition: Condition
    letter: str  # of the run that meets it
    found: list[str]


def parse_conditions(texts: Iterable[str]) -> list[Condition]:
    """Parse conditions, several in a text by comma; raises NotationError for anything else."""
    return [_parse(part) for text in texts for part in text.split(",")]


def violations(comparison: RunComparison, conditions: Iterable[Condition]) -> list[Violation]:
    """The conditions that a comparison meets.

    Raises ResultsError where none is met and the runs cannot show it of some cell: a gate that
    never closes would be worse than none.
    """
    found: list[Violation] = []
    refusals: list[str] = []
    letters = f"{comparison.first.letter} and {comparison.second.letter}"
    for condition in conditions:
        if met := list(dict.fromkeys(_meeting(comparison, condition))):
            found.append(Violation(condition, comparison.second.letter, met))
        elif why := _why_not_judged(comparison, condition.kind):
            text = f"--fail-on {quote(condition.text)} cannot be judged between {letters}: {why}"
            refusals.append(text)
    if refusals and not found:
        raise ResultsError(refusals[0])
    return found


def hidden_by_margin(comparison: RunComparison, conditions: Iterable[Condition]) -> list[str]:
    """A remark for each condition whose limit is within the margin of the verdicts."""
    found = []
    for condition in conditions:
        changes = comparison.costs["memory" if condition.kind == "memory" else "time"]
        margins = [one.margin for one in changes if 1 < condition.limit < one.margin]
        if margins:
            found.append(
                f"--fail-on {condition.text}: the noise floor of {len(margins)} of {len(changes)} "
                f"cells is larger, up to {percentage(max(margins))}, so a smaller change of these "
                "has no verdict; measure more rounds on a quieter machine"
            )
    return found


def _parse(text: str) -> Condition:
    text = " ".join(text.split())
    match = _CONDITION.fullmatch(text)
    percents = [] if match is None else [p for p in (match[2], match[4]) if p is not None]
    if match is None or not all(map(_PERCENT.fullmatch, percents)):
        raise NotationError(f"--fail-on {quote(text)} is not a condition; {ADVICE}")
    kind = match[1] or match[3] or match[5]
    return Condition(text, kind, 1 + float(percents[0]) / 100 if percents else 1.0)


def _meeting(comparison: RunComparison, condition: Condition) -> Iterator[str]:
    kind, limit = condition.kind, condition.limit
    if kind in ("slower", "any"):
        yield from _costlier(comparison, "time", "slower", limit)
    if kind in ("faster", "any"):
        yield from _costlier(comparison, "time", "faster", limit)
    if kind in ("memory", "any"):
        yield from _costlier(comparison, "memory", "more", limit)
    if kind == "any":
        yield from _costlier(comparison, "memory", "less", limit)
    for outcome in comparison.outcomes:
        if kind == "any" or (kind == "failed" and outcome.first == "ok"):
            yield f"{place_name(outcome.place)} ({outcome.first} -> {outcome.second})"
    for conclusion in comparison.conclusions:
        if kind in ("contradiction", "any") and conclusion.agreement == "contradict":
            words = f"{conclusion.first.verdict} -> {conclusion.second.verdict}"
            yield f"{place_name(conclusion.place)} ({words} than {comparison.first.baseline})"
    for crossing in comparison.crossings:
        if kind == "any" and crossing.moved:
            yield f"{place_name(crossing.place, with_length=False)} (crossing moved)"


def _costlier(
    comparison: RunComparison, measured: Measured, verdict: str, limit: float
) -> Iterator[str]:
    for change in comparison.costs[measured]:
        if change.verdict == verdict and _size(change) > limit:
            yield f"{place_name(change.place)} ({verdict} {measured}: x{_ratio(change)})"


def _size(change: CostChange) -> float:
    """The ratio or its reciprocal, whichever is above 1."""
    return max(change.ratio, 1 / change.ratio)


def _ratio(change: CostChange) -> str:
    return significant(change.ratio)


def _why_not_judged(comparison: RunComparison, kind: str) -> str:
    """Why a condition cannot be judged for every cell that both runs measured; empty if it can."""
    if kind == "failed":
        return ""
    conclusions = [(one.first.verdict, one.second.verdict) for one in comparison.conclusions]
    concluded = any(ONE_ROUND not in verdicts for verdicts in conclusions)
    if kind == "contradiction":
        return "" if concluded else comparison.no_conclusions or _no_rounds(comparison)
    changes = comparison.costs["memory" if kind == "memory" else "time"]
    few = sum(change.verdict == ONE_ROUND for change in changes)
    if few == len(changes):
        if kind == "any":
            return "" if concluded else _no_rounds(comparison)
        if comparison.no_times:
            return (
                f"{comparison.no_times}, and costs are only compared on one machine; measure both "
                'runs on one, or use "contradiction"'
            )
        return _no_rounds(comparison)
    if few:
        return (
            f"{few} of {len(changes)} cells have one round in one of the runs; measure its other "
            "rounds with --resume"
        )
    if comparison.elsewhere and kind != "any":  # whose conclusions are compared
        return (
            f"{comparison.elsewhere} cells were measured by different machines, and costs are only "
            "compared on one machine; measure both runs on the same"
        )
    return ""


def _no_rounds(comparison: RunComparison) -> str:
    if not comparison.ok_in_both:
        return 'no cell is ok in both runs; see `compare` without --fail-on, or use "failed"'
    return "no cell has two rounds or more in both runs; measure with measure.rounds: 3 or more"
