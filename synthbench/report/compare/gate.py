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

    Raises ResultsError where the runs cannot show whether a condition is met: a gate that never
    closes would be worse than none.
    """
    found: list[Violation] = []
    for condition in conditions:
        _require_judged(comparison, condition)
        if met := list(dict.fromkeys(_meeting(comparison, condition))):
            found.append(Violation(condition, comparison.second.letter, met))
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


def _require_judged(comparison: RunComparison, condition: Condition) -> None:
    times = _are_judged(comparison, "time")
    concluded = any(
        ONE_ROUND not in (one.first.verdict, one.second.verdict) for one in comparison.conclusions
    )
    possible = {
        "slower": times,
        "faster": times,
        "memory": _are_judged(comparison, "memory"),
        "contradiction": concluded,
        "any": times or concluded,
        "failed": True,
    }
    if possible[condition.kind]:
        return
    why = "no cell has two rounds or more in both runs; measure with measure.rounds: 3 or more"
    if condition.kind == "contradiction" and comparison.no_conclusions:
        why = comparison.no_conclusions
    if condition.kind in ("slower", "faster", "memory") and comparison.no_times:
        why = (
            f"{comparison.no_times}, and costs are only compared on one machine; measure both runs "
            'on one, or use "contradiction"'
        )
    letters = f"{comparison.first.letter} and {comparison.second.letter}"
    raise ResultsError(
        f"--fail-on {quote(condition.text)} cannot be judged between {letters}: {why}"
    )


def _are_judged(comparison: RunComparison, measured: Measured) -> bool:
    return any(change.verdict != ONE_ROUND for change in comparison.costs[measured])
