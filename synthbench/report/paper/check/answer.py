"""Whether a claim holds, from our figure, its interval and its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from synthbench.report.paper.check.question import Question
from synthbench.report.paper.claims import DIRECTIONS

Answer = Literal["holds", "does not hold", "undecided", "not measured"]
Direction = Literal["higher", "lower", "same", "unknown"]

# A claim of several pairs has the first of these that one of them has.
WORST_FIRST: tuple[Answer, ...] = ("does not hold", "undecided", "not measured", "holds")
ROUNDING = 1e-9  # relative, of what is computed from printed numbers


def together(answers: Iterable[Answer]) -> Answer:
    """The answer to a claim from those of its pairs: it holds if it does for each of them."""
    found = set(answers)
    return next(answer for answer in WORST_FIRST if answer in found)


def of_direction(expected: str, found: Direction) -> Answer:
    """Of "higher", "lower" or "different" against a verdict.

    What is surely the same has no direction.
    """
    if found == "unknown":
        return "undecided"
    if expected == "different":
        return "does not hold" if found == "same" else "holds"
    return "holds" if found == expected else "does not hold"


def of_interval(question: Question, low: float, high: float, noise: float = 1.0) -> Answer:
    """Of a size against the confidence interval of the ratio of the first to the second.

    It holds if the whole interval is where the claim has it, and does not if none of it is, even
    with the noise: a factor above 1 by which two measurements of the same thing differ.
    """
    least, most = band(question)
    if least <= low and high <= most:
        return "holds"
    return "does not hold" if high * noise < least or low / noise > most else "undecided"


def band(question: Question) -> tuple[float, float]:
    """The ratios that a claim about a size allows."""
    claim = question.claim
    if claim.expect in DIRECTIONS:
        factor = claim.by or 1.0
        return (factor, float("inf")) if claim.expect == "higher" else (0.0, 1 / factor)
    middle = 1.0 if claim.expect == "same" else published(question)
    share = 1 + (claim.within or 0.0)
    return middle / share, middle * share


def published(question: Question) -> float:
    """What the paper prints: the ratio or the difference of a pair, or the value of a row."""
    one = question.printed(question.one)
    if question.other is None:
        return one
    other = question.printed(question.other)
    return one - other if question.claim.expect == "difference" else one / other


def of_count(question: Question, ours: float) -> Answer:
    """Of a count, or a difference of counts, against the printed digits.

    A value has to be printed like that; a difference may be one more or less in the last digit,
    since both of its numbers are rounded.
    """
    paper, digit = published(question), question.last_digit
    room = (digit if question.other else digit / 2) * (1 + ROUNDING)
    return "holds" if abs(ours - paper) <= room else "does not hold"
