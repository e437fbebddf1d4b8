"""Claims about numbers of parameters and FLOPs, from what the frameworks built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from synthbench.models.spec import ModelSpec
from synthbench.record import Record
from synthbench.report.paper.check.answer import Answer, of_count, of_interval
from synthbench.report.paper.check.evidence import Evidence, Figure
from synthbench.report.paper.check.question import Pair, Question, pairs
from synthbench.report.paper.formulas import formula_count
from synthbench.report.paper.quantities import one_hot_flops
from synthbench.store import Run
from synthbench.suites.cell import Cell

COUNTED = ("parameters", "formula", "flops")


def counts(run: Run, questions: Sequence[Question]) -> Iterator[Evidence]:
    """What the models of a run say; only models of exactly the paper's sizes do."""
    built = _parameters(run.records)
    cells = {record.id: record.cell for record in run.records if record.id in built}
    models = {id_: _resolved(cell.model) for id_, cell in cells.items()}
    for question in questions:
        if question.column.quantity in COUNTED:
            for pair in pairs(question, _of_the_papers_models(question, cells, models)):
                yield _evidence(run, question, pair, built)


def _parameters(records: Sequence[Record]) -> dict[str, int]:
    """Cell id -> the parameters that the framework counted."""
    found: dict[str, int] = {}
    for record in records:
        if record.measurements.parameters is not None:
            found.setdefault(record.id, record.measurements.parameters)
    return found


def _of_the_papers_models(
    question: Question, cells: Mapping[str, Cell], models: Mapping[str, ModelSpec]
) -> list[Cell]:
    """The cells whose model is the paper's around one of the variants that were asked for."""
    if question.column.quantity == "formula":
        variant = question.one.variant
        return [c for c in cells.values() if c.model.kind == "mixer" and c.variant == variant]
    wanted = [
        (side.variant, _resolved(model))
        for side in question.sides
        if (model := question.model(side)) is not None
    ]
    return [cell for id_, cell in cells.items() if (cell.variant, models[id_]) in wanted]


def _resolved(model: ModelSpec) -> ModelSpec:
    """A model with all sizes written out, and without the target length, which costs nothing."""
    d, cross_heads = model.d_model, model.cross_heads or model.heads
    return model.model_copy(
        update={
            "head_dim": model.head_dim or d // model.heads,
            "feed_forward": model.feed_forward or 4 * d,
            "cross_heads": cross_heads,
            "cross_head_dim": model.cross_head_dim or d // cross_heads,
            "target_len": None,
        }
    )


def _evidence(run: Run, question: Question, pair: Pair, built: dict[str, int]) -> Evidence:
    kind, figure, answer = _found(question, pair, built)
    unit = "" if kind == "ratio" else "parameters"
    return Evidence(question, pair, pair.one.framework, run, answer, kind, figure, unit=unit)


def _found(question: Question, pair: Pair, built: dict[str, int]) -> tuple[Figure, float, Answer]:
    one = pair.one
    if question.column.quantity == "formula":
        count = formula_count(question.one.row, one)
        ours = built[one.id] - count.beside
        return "value", ours, "holds" if ours == count.published else "does not hold"
    if pair.other is None:
        return "value", built[one.id], of_count(question, built[one.id])
    if question.column.quantity == "flops":
        ratio = one_hot_flops(one) / one_hot_flops(pair.other)
        return "ratio", ratio, of_interval(question, ratio, ratio)
    difference = built[one.id] - built[pair.other.id]
    return "difference", difference, of_count(question, difference)
