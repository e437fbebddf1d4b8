"""The answers to all claims as tables, and as the page docs/claims.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from synthbench.report.data.cell_layout import FRAMEWORKS
from synthbench.report.data.table import Column, Table, Value
from synthbench.report.paper.check.answer import WORST_FIRST
from synthbench.report.paper.check.check import CheckedClaim, CheckedPair
from synthbench.report.paper.check.setting import differs, is_reduced
from synthbench.report.paper.check.texts import (
    others,
    ours,
    papers,
    setting,
    why_not_measured,
)
from synthbench.report.paper.published import SOURCE
from synthbench.report.text.markdown import markdown_section

HEAD = f"""# The paper's claims

What "Synthesizer: Rethinking Self-Attention for Transformer Models" ({SOURCE})
says, in our own words, and whether our runs agree. The printed numbers beside ours:
[the paper's tables](paper.md). The claims are data: `synthbench/report/paper/claims.yaml`.
`synthbench claims RUN` checks them against runs of yours.
Made by `make claims` from the records in `results/`; do not edit.

"""
SUBJECTS = {
    "speed": "Speed",
    "formula": "Parameters", "parameters": "Parameters", "flops": "FLOPs",
    "quality": "Quality after training", "weights": "Quality after training",
}  # fmt: skip
ANSWERS_NOTE = (
    "holds: our figures agree for every pair of variants that the claim is about. does not hold: "
    "for at least one they do not. undecided: none disagrees, but for one the figure is not known "
    "well enough, or not measured. not measured: no run has it. reduced: on "
    "smaller sizes, or other data, than the paper's; such an answer is about our setting. other "
    "setting: of the same size, but on another device or with other variants. no run: "
    "none has both variants in one such model. no task: synthbench cannot measure it."
)
FIGURES_NOTE = (
    "Of several runs the one counts whose setting is nearest to the paper's; others: what further "
    "settings say, in both frameworks."
)
HOW = {
    "Speed": (
        "Training steps per second of the first over those of the second, with the 95% confidence "
        "interval. A direction holds or does not by the verdict of the run (table `ratios`): "
        "`faster`, `slower` or `same`; `close`, `undecided` and `one round` leave it undecided. A "
        "size holds if the whole interval is within the tolerance, and does not if it lies outside "
        "by more than the noise floor or the margin of the run, the larger of the two."
    ),
    "Parameters": (
        "Counted in the models that each framework built. A number has to round to the printed "
        "digits; a difference of two printed numbers may be one more or less in the last digit."
    ),
    "FLOPs": (
        "Those of the first over those of the second, by formula at the paper's lengths; as in the "
        "paper, embedding look-ups count as products here; to 1%."
    ),
    "Quality after training": (
        "At the end of training, the first minus the second within each seed, or their ratio where "
        "the claim is about a size; with the 95% confidence interval over seeds. A direction is "
        "judged after Holm's correction: for the variants of its task, framework and length, as in "
        "the table `quality`, where one of the two is the baseline; otherwise for the other pairs "
        "of its task and framework. `different` holds if either direction does. The spread of "
        "weights: their standard deviation on held-out examples, the mean over the layers of the "
        "encoder."
    ),
}


def claims_tables(checked: Sequence[CheckedClaim]) -> list[Table]:
    """The answers, then the figures of each subject."""
    subjects = dict.fromkeys(SUBJECTS[one.quantity] for one in checked)
    figures = [_figures(name, checked) for name in subjects]
    return [_answers(checked), *(table for table in figures if table.rows)]


def claims_page(checked: Sequence[CheckedClaim]) -> str:
    """All tables on one page of Markdown."""
    return HEAD + "\n".join(map(markdown_section, claims_tables(checked)))


def _answers(checked: Sequence[CheckedClaim]) -> Table:
    columns = (
        Column("claim", is_key=True), *(Column(framework) for framework in FRAMEWORKS),
        Column("remark"), Column("source"), Column("the paper says"),
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = [
        (one.key, *map(one.answer, FRAMEWORKS), _remark(one), one.claim.source, one.claim.says)
        for one in checked
    ]
    return Table("claims", "Answers", f"{_totals(checked)} {ANSWERS_NOTE}", (), columns, rows)


def _totals(checked: Sequence[CheckedClaim]) -> str:
    """How many claims have which answer."""
    parts = []
    for framework in FRAMEWORKS:
        count = Counter(one.answer(framework) for one in checked)
        named = ", ".join(f"{count[answer]} {answer}" for answer in reversed(WORST_FIRST))
        parts.append(f"{framework}: {named}")
    return f"{len(checked)} claims. {'; '.join(parts)}."


def _remark(one: CheckedClaim) -> str:
    """Whether the setting was reduced, and why pairs are not measured."""
    parts: list[str] = []
    nearest = [pair.nearest(framework) for pair in one.pairs for framework in FRAMEWORKS]
    settings = [found.differences for found in nearest if found is not None]
    if any(map(is_reduced, settings)):
        parts.append("reduced")
    elif any(differs(setting) for setting in settings):
        parts.append("other setting")
    parts += [why_not_measured(pair.question) for pair in one.pairs if not pair.is_measured]
    return ", ".join(dict.fromkeys(parts))


def _figures(subject: str, checked: Sequence[CheckedClaim]) -> Table:
    """One row per pair that some run measured."""
    columns = (
        Column("claim", is_key=True), Column("compared", is_key=True), Column("paper"),
        *(Column(framework) for framework in FRAMEWORKS), Column("run"), Column("setting"),
        Column("others"),
    )  # fmt: skip
    rows = [
        _row(one, pair)
        for one in checked
        if SUBJECTS[one.quantity] == subject
        for pair in one.pairs
        if pair.is_measured
    ]
    return Table(subject, subject, f"{HOW[subject]} {FIGURES_NOTE}", (), columns, rows)


def _row(one: CheckedClaim, pair: CheckedPair) -> tuple[Value, ...]:
    nearest = [found for framework in FRAMEWORKS if (found := pair.nearest(framework))]
    return (
        one.key, pair.question.rows, papers(pair.question, nearest[0]),
        *(_entry(pair, framework) for framework in FRAMEWORKS),
        _distinct(found.name for found in nearest), _distinct(map(setting, nearest)), others(pair),
    )  # fmt: skip


def _entry(pair: CheckedPair, framework: str) -> str:
    """The answer with our figure, and what left it open."""
    nearest = pair.nearest(framework)
    if nearest is None:
        return "not measured"
    remark = "" if nearest.remark in ("", nearest.answer) else f", {nearest.remark}"
    figure = ours(nearest)
    return f"{nearest.answer}{remark}: {figure}" if figure else f"{nearest.answer}{remark}"


def _distinct(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))
