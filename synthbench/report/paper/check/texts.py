"""The figures of claims as people read them."""

from __future__ import annotations

from collections import Counter

from synthbench.metrics import full_integer, significant
from synthbench.report.paper.check.answer import published
from synthbench.report.paper.check.check import CheckedPair
from synthbench.report.paper.check.evidence import Evidence
from synthbench.report.paper.check.question import Question
from synthbench.report.paper.check.setting import shown
from synthbench.report.paper.claims import DIRECTIONS
from synthbench.report.paper.formulas import formula_count

AS_IN_THE_PAPER = "the paper's sizes"
SIZES_OF_THE_RUN = "the sizes of the run"


def ours(evidence: Evidence) -> str:
    """Our figure with its interval; empty without one."""
    if evidence.figure is None:
        return ""
    figure = _number(evidence, evidence.figure)
    if evidence.interval is None:
        return figure
    low, high = (_number(evidence, bound, with_unit=False) for bound in evidence.interval)
    return f"{figure} ({low} to {high})"


def _number(evidence: Evidence, value: float, *, with_unit: bool = True) -> str:
    if evidence.question.column.quantity == "flops":
        return f"{value:.3f}"
    if evidence.kind == "ratio":
        return significant(value)
    sign = "+" if evidence.kind == "difference" and value >= 0 else ""
    if evidence.question.column.quantity == "formula":
        return full_integer(value)
    if evidence.question.column.quantity == "parameters":
        return f"{sign}{value / 1e6:.2f}M"
    unit = f" {evidence.unit}" if with_unit and evidence.unit else ""
    return f"{sign}{significant(value)}{unit}"


def papers(question: Question, nearest: Evidence) -> str:
    """The paper's figure, of the same kind as ours; empty where it prints none."""
    quantity, expect = question.column.quantity, question.claim.expect
    if quantity == "formula":
        return full_integer(formula_count(question.one.row, nearest.pair.one).published)
    if quantity == "weights":
        return ""
    if quantity == "parameters":
        sign = "+" if expect == "difference" else ""
        return f"{published(question) / 1e6:{sign}.0f}M"
    if quantity == "quality" and expect in DIRECTIONS and question.claim.by is None:
        assert question.other is not None
        texts = question.text(question.one), question.text(question.other)
        decimals = max(len(text.partition(".")[2]) for text in texts)
        return f"{float(texts[0]) - float(texts[1]):+.{decimals}f}"
    return f"{published(question):.3f}" if quantity == "flops" else significant(published(question))


def setting(evidence: Evidence) -> str:
    """How the setting of our figure differs from the paper's."""
    quantity = evidence.question.column.quantity
    if quantity == "formula":
        return SIZES_OF_THE_RUN
    return shown(evidence.differences) or AS_IN_THE_PAPER


def why_not_measured(question: Question) -> str:
    """Why nothing is said about a pair: nothing here can measure it, or no run has."""
    quantity, tasks = question.column.quantity, question.column.tasks
    return "no task" if quantity in ("quality", "weights") and not tasks else "no run"


def others(pair: CheckedPair) -> str:
    """How many further settings give which answer, in both frameworks together."""
    total = Counter(one.answer for found in pair.found.values() for one in found[1:])
    return ", ".join(f"{count} {answer}" for answer, count in sorted(total.items()))
