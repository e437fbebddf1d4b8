"""Claims about what a model learns, and how its weights spread, from trainings with seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from synthbench.analysis.learning import Better
from synthbench.analysis.seeds import Comparison, Judgement, judge, mean_over_seeds, paired
from synthbench.report.data.prepared import Prepared
from synthbench.report.data.quality import At
from synthbench.report.data.training_groups import training_records
from synthbench.report.paper.check.answer import Direction, of_direction, of_interval
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.question import Question
from synthbench.report.paper.check.setting import differences
from synthbench.report.paper.check.trainings import TrainedPair, trained_pairs
from synthbench.report.paper.claims import DIRECTIONS
from synthbench.store import Run
from synthbench.tasks.learning.metrics import LARGEST_EXPONENT

LEARNED = ("quality", "weights")
ONE_SEED = "one seed"
NO_SEED = "no shared seed"
NO_RATIO = "a value is not above 0"


def quality(prepared: Prepared, questions: Sequence[Question]) -> Iterator[Evidence]:
    """What the trainings of a run say, paired within seeds.

    Differences to the baseline have the verdicts of the table `quality`; the others of a task and
    framework are judged together.
    """
    trainings = training_records(prepared.run.records)
    asked = [
        (question, trained)
        for question in questions
        if question.column.quantity in LEARNED
        for trained in trained_pairs(trainings, prepared.context.qualities, question)
    ]
    directions = [at for at, (question, _) in enumerate(asked) if _is_direction(question)]
    judged: dict[int, tuple[Judgement, Direction]] = {}
    further: dict[int, Comparison] = {}
    for at in directions:
        trained = asked[at][1]
        known = _of_table(prepared, trained)
        if known is not None:
            judged[at] = known
        elif seeds := paired(trained.known(0), trained.known(1)):
            margin = _margin(prepared, trained)
            cell = trained.pair.one
            family = f"{cell.framework} {cell.task} {trained.metric}"
            bounds = trained.declared.difference_bounds
            further[at] = Comparison(seeds, "higher", margin, family, bounds)
    # Several claims may ask for the same pair and metric, which is one comparison.
    same = {at: _compared(asked[at][1]) for at in further}
    different = {same[at]: one for at, one in further.items()}
    verdicts = dict(zip(different, judge(list(different.values())), strict=True))
    for at, pair in same.items():
        judged[at] = verdicts[pair], _direction(verdicts[pair], "higher")
    for at, (question, trained) in enumerate(asked):
        found = _nothing_yet(prepared.run, question, trained)
        if not _is_direction(question):
            found = _of_ratio(found, trained)
        elif at in judged:
            found = _of_direction(found, trained, *judged[at])
        if trained.without_result and found.answer != "not measured":
            found = replace(found, answer="undecided", remark=trained.without_result)
        yield found


def _compared(trained: TrainedPair) -> tuple[str, ...]:
    """What a pair compares: metric and cells."""
    return trained.metric, *(cell.id for cell in trained.pair.cells)


def _of_table(prepared: Prepared, trained: TrainedPair) -> tuple[Judgement, Direction] | None:
    """The judgement of the table `quality`; None for a pair that it does not compare."""
    one, other = (cell.variant for cell in trained.pair.cells)
    quality, baseline = trained.quality, prepared.context.baseline
    if quality is None or baseline not in (one, other) or quality.group.metric != trained.metric:
        return None
    is_first = one == baseline
    found = quality.differences.get(At(other if is_first else one, "steps"))
    better = quality.group.better
    if not isinstance(found, Judgement) or better is None:
        return None
    found = found.reversed if is_first else found
    return found, _direction(found, better)


def _direction(judged: Judgement, better: Better) -> Direction:
    worse: Direction = "lower" if better == "higher" else "higher"
    found: dict[str, Direction] = {"better": better, "worse": worse, "same": "same"}
    return found.get(judged.verdict, "unknown")


def _margin(prepared: Prepared, trained: TrainedPair) -> float:
    """The suite's margin, of the mean of the second."""
    values = trained.known(1).values()
    return prepared.context.noise.declared * abs(statistics.fmean(values))


def _is_direction(question: Question) -> bool:
    """Whether the sign of the difference decides, or that there is one."""
    claim = question.claim
    return claim.expect == "different" or (claim.expect in DIRECTIONS and claim.by is None)


def _nothing_yet(run: Run, question: Question, trained: TrainedPair) -> Evidence:
    """Evidence without a figure."""
    pair = trained.pair
    return Evidence(
        question, pair, pair.one.framework, run, "not measured", "ratio",
        remark=trained.without_result or NO_SEED,
        differences=differences(question, pair, task=pair.one.task, steps=trained.steps),
    )  # fmt: skip


def _of_direction(
    found: Evidence, trained: TrainedPair, judged: Judgement, direction: Direction
) -> Evidence:
    """By the difference of the two values of each seed, in the unit of the metric."""
    scale, interval = trained.declared.scale, judged.estimate.interval()
    answer = of_direction(found.question.claim.expect, direction)
    return replace(
        found,
        answer=answer,
        kind="difference",
        figure=scale * judged.estimate.mean,
        interval=None if interval is None else (scale * interval[0], scale * interval[1]),
        remark=judged.verdict if answer == "undecided" else "",
        unit=trained.declared.label,
    )


def _of_ratio(found: Evidence, trained: TrainedPair) -> Evidence:
    """By the ratio of the two values of each seed, as logarithms."""
    logs = _log_ratios(trained.known(0), trained.known(1))
    if not logs:
        return replace(found, remark=NO_RATIO) if logs is None else found
    ratio = mean_over_seeds(logs)
    figure, interval = _number(ratio.mean), ratio.interval()
    if interval is None:
        return replace(found, answer="undecided", figure=figure, remark=ONE_SEED)
    low, high = map(_number, interval)
    answer = of_interval(found.question, low, high)
    remark = "undecided" if answer == "undecided" else ""
    return replace(found, answer=answer, figure=figure, interval=(low, high), remark=remark)


def _number(log_ratio: float) -> float:
    """The ratio; one too large or too close to 0 for a number is cut off."""
    return math.exp(min(max(log_ratio, -LARGEST_EXPONENT), LARGEST_EXPONENT))


def _log_ratios(one: Mapping[int, float], other: Mapping[int, float]) -> tuple[float, ...] | None:
    """The logarithm of the ratio in each seed; None where a value is not above 0."""
    if any(value <= 0 for value in (*one.values(), *other.values())):
        return None
    logs = ({seed: math.log(value) for seed, value in side.items()} for side in (one, other))
    return paired(*logs)
