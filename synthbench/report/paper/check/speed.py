"""Claims about training steps per second, from the times of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthbench.analysis.comparison import Comparison, Judgement
from synthbench.report.data.grid import Key
from synthbench.report.data.prepared import Prepared
from synthbench.report.data.verdicts import judge_all
from synthbench.report.paper.check.answer import Answer, Direction, of_direction, of_interval
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.question import Pair, Question, pairs
from synthbench.report.paper.check.setting import differences
from synthbench.report.paper.claims import DIRECTIONS

DIRECTION: dict[str, Direction] = {"faster": "higher", "slower": "lower", "same": "same"}


def speed(prepared: Prepared, questions: Sequence[Question]) -> Iterator[Evidence]:
    """What the train steps of a run say; a mixer without a model around it says nothing."""
    cells = [
        record.cell
        for record in prepared.cost_grid.records
        if record.cell.mode == "train" and record.cell.model.kind != "mixer"
    ]
    asked = [
        (question, pair)
        for question in questions
        if question.column.quantity == "speed"
        for pair in pairs(question, cells)
    ]
    judged = _judged(prepared, [pair for _, pair in asked])
    for question, pair in asked:
        yield _evidence(prepared, question, pair, judged[_keys(prepared, pair)])


def _keys(prepared: Prepared, pair: Pair) -> tuple[Key, Key]:
    assert pair.other is not None
    return prepared.cost_grid.key(pair.one), prepared.cost_grid.key(pair.other)


def _judged(prepared: Prepared, asked: Sequence[Pair]) -> dict[tuple[Key, Key], Judgement | str]:
    """The judgement of each pair; with the baseline it is that of the run's tables.

    Other pairs are judged together with those of the tables, so that each counts in the correction
    for many comparisons.
    """
    grid, context = prepared.cost_grid, prepared.context
    found: dict[tuple[Key, Key], Judgement | str] = {}
    further: dict[Key, tuple[tuple[Key, Key], Comparison]] = {}
    for keys in dict.fromkeys(_keys(prepared, pair) for pair in asked):
        one, other = keys
        if one._replace(variant=context.baseline) == other and one in context.verdicts:
            found[keys] = context.verdicts[one]
            continue
        if other._replace(variant=context.baseline) == one and other in context.verdicts:
            seen = context.verdicts[other]
            found[keys] = seen if isinstance(seen, str) else seen.reversed
            continue
        compared = grid.compare(one, other, other.variant, one.variant)
        if isinstance(compared, str):
            found[keys] = compared
        else:
            name = f"{one.variant} / {other.setting} {other.variant}"
            further[one._replace(variant=name)] = keys, compared
    known = {
        key: grid.compare(key, key._replace(variant=context.baseline, replica=0), context.baseline)
        for key, judged in context.verdicts.items()
        if isinstance(judged, Judgement)
    }
    together = {key: one for key, one in known.items() if isinstance(one, Comparison)}
    together |= {key: one for key, (_, one) in further.items()}
    if further:
        for key, judged in zip(together, judge_all(together, context.noise), strict=True):
            if key in further:
                found[further[key][0]] = judged
    return found


def _evidence(
    prepared: Prepared, question: Question, pair: Pair, judged: Judgement | str
) -> Evidence:
    framework, run = pair.one.framework, prepared.run
    differ = differences(question, pair)
    if isinstance(judged, str):
        return Evidence(
            question, pair, framework, run, "not measured", "ratio", None, None, judged,
            differences=differ,
        )  # fmt: skip
    low, high = judged.estimate.interval()
    margin = prepared.context.noise.margin(_keys(prepared, pair)[0], judged.estimate.independent)
    answer = _answer(question, judged, (low, high), margin)
    remark = judged.verdict if answer == "undecided" else ""
    return Evidence(
        question, pair, framework, run, answer, "ratio", judged.estimate.ratio, (low, high), remark,
        differences=differ,
    )  # fmt: skip


def _answer(
    question: Question, judged: Judgement, interval: tuple[float, float], margin: float
) -> Answer:
    claim = question.claim
    if judged.verdict == "one round":
        return "undecided"
    if claim.expect in DIRECTIONS and claim.by is None:
        return of_direction(claim.expect, DIRECTION.get(judged.verdict, "unknown"))
    return of_interval(question, *interval, margin)
