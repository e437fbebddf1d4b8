"""How what we measured differs from what the paper measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from synthbench.models.spec import ModelSpec
from synthbench.report.paper.check.question import Pair, Question
from synthbench.suites.cell import Cell
from synthbench.tasks.data.base import SPLITS

BYTES = "bytes"  # the tokenizer of tasks that name none
UNKNOWN = "unknown"  # what the paper had, where we do not know it
SIZES = ("layers", "d_model", "feed_forward", "vocabulary")


@dataclass(frozen=True)
class Difference:
    """One fact that differs, or of which we do not know what it was in the paper."""

    name: str
    ours: str
    paper: str = UNKNOWN
    reduces: bool = False  # a size that is less than in the paper, or other data

    def __str__(self) -> str:
        known = "" if self.paper == UNKNOWN else f" (paper: {self.paper})"
        return f"{self.name} {self.ours}{known}"


def is_reduced(differences: tuple[Difference, ...]) -> bool:
    """Whether something is smaller than in the paper, or the data is other."""
    return any(difference.reduces for difference in differences)


def differs(differences: tuple[Difference, ...]) -> bool:
    """Whether something is known to be other than in the paper."""
    return any(difference.paper != UNKNOWN for difference in differences)


def shown(differences: tuple[Difference, ...]) -> str:
    """The differences in one line."""
    text = ", ".join(map(str, differences))
    return f"reduced: {text}" if is_reduced(differences) else text


def differences(
    question: Question, pair: Pair, *, task: str = "", steps: int | None = None
) -> tuple[Difference, ...]:
    """How a pair of cells differs from the paper's setting.

    `task` and `steps` are those of a training; without them, of a step that was timed.
    """
    return tuple(_differences(question, pair, task, steps))


def _differences(
    question: Question, pair: Pair, task: str, steps: int | None
) -> Iterator[Difference]:
    cell, setting = pair.one, question.setting
    if task:
        wanted = next(iter(question.column.tasks))
        if task != wanted:
            yield Difference("task", task, wanted)
        data = data_of(cell)
        if data not in question.column.same_data:
            yield Difference("data", data, question.column.data or UNKNOWN, reduces=True)
        else:  # then it is a task that reads texts
            tokenizer = tokenizer_of(cell)
            # Loss and perplexity are per token, and the paper's tokens are no bytes.
            yield Difference("tokenizer", tokenizer, reduces=tokenizer == BYTES)
    if not task:
        yield Difference("device", cell.device, setting.device or UNKNOWN)
    for side, one in zip(question.sides, pair.cells, strict=True):
        if one.variant != side.variant:
            yield Difference("variant", one.variant, side.variant)
        model = question.model(side)
        if model is not None and _heads(one.model) != _heads(model):
            yield Difference(f"heads of {one.variant}", _heads(one.model), _heads(model))
    model = question.model(question.one)
    if model is not None:
        yield from _of_model(cell.model, model)
    yield from _size("length", cell.seq_len, setting.seq_len)
    if cell.model.target_len is not None:
        yield from _size("target length", cell.model.target_len, setting.target_len)
    yield Difference("batch", str(cell.batch))
    if steps is not None:
        yield Difference("steps", f"{steps:,}")
    yield Difference("dtype", cell.dtype)


def data_of(cell: Cell) -> str:
    """The data of a learning task in few words: "file novel.txt", "generated".

    Of a data set with its config and, where only a part is read, what is read; of pairs of texts
    with their direction: "wmt14 de-en from en to de".
    """
    data = cell.options.get("data", "generated")
    if not isinstance(data, dict) or len(data) != 1:
        return str(data)
    ((name, given),) = data.items()
    options = given if isinstance(given, dict) else {name: given}
    where = options.get("dataset", options.get("path", options.get(name, "")))
    parts = [str(where).rpartition("/")[2], options.get("config")]  # without folders
    parts.append(_direction(options.get("columns")))
    if name == "hf":
        parts += [str(options[split]) for split in SPLITS if _is_part(options.get(split))]
    return " ".join(str(part) for part in ([] if name == "hf" else [name]) + parts if part)


def tokenizer_of(cell: Cell) -> str:
    """The tokenizer of a task on texts in few words: "bytes", "bpe 32000"."""
    tokenizer = cell.options.get("tokenizer", BYTES)
    if not isinstance(tokenizer, dict) or len(tokenizer) != 1:
        return str(tokenizer)
    ((name, given),) = tokenizer.items()
    return name if isinstance(given, dict) else f"{name} {given}"


def _is_part(given: Any) -> bool:
    """Whether it is less than a whole split: a slice like train[:100], or texts held out of it."""
    return given is not None and (isinstance(given, float) or "[" in str(given))


def _direction(columns: Any) -> str:
    """From which column into which a task translates; empty where none is named."""
    if not isinstance(columns, dict) or not columns.keys() & {"source", "target"}:
        return ""
    source, target = (str(columns.get(n, n)).rpartition(".")[2] for n in ("source", "target"))
    return f"from {source} to {target}"


def _of_model(ours: ModelSpec, paper: ModelSpec) -> Iterator[Difference]:
    if ours.kind != paper.kind:
        yield Difference("model", ours.kind, paper.kind)
    for name in SIZES:
        yield from _size(name, _resolved(ours, name), _resolved(paper, name))
    for name in ("norm", "positions"):
        if getattr(ours, name) != getattr(paper, name):
            yield Difference(name, getattr(ours, name), getattr(paper, name))


def _resolved(model: ModelSpec, name: str) -> int | None:
    value: int | None = getattr(model, name)
    return 4 * model.d_model if value is None and name == "feed_forward" else value


def _heads(model: ModelSpec) -> str:
    return f"{model.heads} x {model.head_dim or model.d_model // model.heads}"


def _size(name: str, ours: int | None, paper: int | None) -> Iterator[Difference]:
    """A size, where it differs from the paper's or where that is not known."""
    if ours is None or ours == paper:
        return
    if paper is None:
        yield Difference(name, f"{ours:,}")
    else:
        yield Difference(name, f"{ours:,}", f"{paper:,}", reduces=ours < paper)
