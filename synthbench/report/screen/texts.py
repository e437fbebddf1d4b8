"""The pieces of a screen as short texts."""

from __future__ import annotations

from synthbench.analysis.comparison import Judgement, Verdict
from synthbench.metrics import significant
from synthbench.report.data.table import MARK, Marked, Value, for_reading, metric_column
from synthbench.report.screen.blocks import Entry, LengthRow
from synthbench.report.screen.pareto import Point
from synthbench.report.tables.scaling import Overtaking, crossing_end

MARKS: dict[Verdict, str] = {
    "faster": "+", "slower": "-", "same": "=", "close": "≈", "undecided": "?",
    "one round": "~",
}  # fmt: skip
SECONDS, PEAK = metric_column("median_seconds"), metric_column("peak_bytes")


def entry_text(entry: Entry) -> str:
    """A variant with its ratio and the mark of its verdict; without a ratio, with its time."""
    if isinstance(entry.compared, Judgement):
        ratio = significant(entry.compared.estimate.ratio)
        mark = MARKS[entry.compared.verdict]
        return f"{entry.variant} {ratio}{mark}{_disturbed(entry.seconds)}"
    unit = "" if isinstance(entry.seconds, str) else " ms"
    return f"{entry.variant} {time_text(entry.seconds)}{unit}"


def answer_text(row: LengthRow) -> str:
    """The fastest of those that are surely faster than the baseline, with its interval."""
    answer = row.answer
    if answer is not None and isinstance(answer.compared, Judgement):
        estimate = answer.compared.estimate
        low, high = map(significant, estimate.interval())
        ratio = f"{significant(estimate.ratio)}{_disturbed(answer.seconds)}"
        return f"{answer.variant} {ratio} ({low}-{high})"
    return "none" if row.is_judged else "no verdict"


def time_text(seconds: Value) -> str:
    """The time of a step in milliseconds, or why it is missing."""
    return for_reading(SECONDS, seconds)


def memory_text(row: LengthRow) -> str:
    """The variant with the least peak memory, and its megabytes."""
    if row.least_memory is None:
        return "none"
    variant, peak = row.least_memory
    return f"{variant} {for_reading(PEAK, peak)}"


def point_text(point: Point) -> str:
    """A point of the Pareto front: time and memory."""
    peak = for_reading(PEAK, point.peak_bytes)
    return f"{point.variant} {for_reading(SECONDS, point.seconds)} ms {peak} MB"


def crossing_text(variant: str, overtaking: Overtaking) -> str:
    """From which length on, or up to which, a variant is faster than the baseline."""
    found = overtaking.crossing
    word = "from" if found.kind == "overtakes" else "until"
    low, high = (
        end if isinstance(end, str) else significant(end)
        for end in (crossing_end(end, overtaking.lengths) for end in (found.low, found.high))
    )
    return f"{variant} {word} {significant(found.length)} ({low} to {high})"


def _disturbed(value: Value) -> str:
    return MARK * isinstance(value, Marked)
