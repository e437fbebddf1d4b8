"""The trainings that are compared: every task with every kind of model that it takes, small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from synthbench.errors import UnsupportedError
from synthbench.models.spec import ModelKind
from synthbench.suites.cell import Cell
from synthbench.tasks.catalog import TASKS, check_task
from synthbench.tasks.learning.base import LearningTask

# Every part of the recipe: warm-up, gradients that are clipped, weight decay, label smoothing,
# evaluations in between.
RECIPE: dict[str, Any] = {
    "learning_rate": 5e-3, "warmup": 0.2, "clip": 0.1, "weight_decay": 0.1,
    "label_smoothing": 0.1, "evaluations": 2, "held_out": 8,
}  # fmt: skip
STEPS = {"float64": 50, "float32": 20}
OPTIONS: dict[str, dict[str, Any]] = {
    "mqar": {"pairs": 2},
    "listops": {"depth": 3, "arguments": 3},
    **{
        name: {"data": {"generated": {"rows": 400}}}
        for name in ("language_model", "span_corruption", "classification", "translation",
                     "summarization")
    },
}  # fmt: skip
VOCABULARY = 272  # bytes, special tokens and sentinels; of every task, so that they share programs
LABELS = {"listops": 10, "classification": 2, "walks": 10}
ANY_KIND = "walks"  # the task that takes every kind of model
SEQ_LEN = 12  # also the length that parameters are made for, and the target's
BATCH = 8
FRAMEWORKS = {"torch": "eager", "jax": "compiled"}


class Place(NamedTuple):
    """A learning task with one of the kinds of model that it takes."""

    task: str
    kind: ModelKind

    def __str__(self) -> str:
        return f"{self.task} ({self.kind})"


def learning_tasks() -> dict[str, type[LearningTask]]:
    """The built-in learning tasks by name."""
    return {name: task for name, task in TASKS.items() if issubclass(task, LearningTask)}


def places(names: Sequence[str] | None = None) -> list[Place]:
    """Every task with every kind of model that it takes; `walks` with those that no other takes."""
    tasks = learning_tasks()
    others = {kind for name, task in tasks.items() for kind in task.kinds if name != ANY_KIND}
    return [
        Place(name, kind)
        for name in names or tasks
        for kind in tasks[name].kinds
        if name != ANY_KIND or kind not in others
    ]


def cell_of(place: Place, variant: str, framework: str, dtype: str) -> Cell:
    """The training of a variant in a framework."""
    task, kind = place
    spec: dict[str, Any] = {"model": kind, "d_model": 16, "heads": 4, "max_len": SEQ_LEN}
    if kind != "mixer":
        spec |= {"vocabulary": VOCABULARY, "feed_forward": 24}
    if kind == "encoder_decoder":
        spec["target_len"] = SEQ_LEN
    if kind == "classifier":
        spec["labels"] = LABELS[task]
    return Cell.from_flat(
        variant=variant, framework=framework, task=task, mode="train", seq_len=SEQ_LEN, batch=BATCH,
        options=RECIPE | OPTIONS.get(task, {}) | {"steps": STEPS[dtype]},
        compile=FRAMEWORKS[framework], dtype=dtype, **spec,
    )  # fmt: skip


def why_not(place: Place, variant: str) -> str | None:
    """Why there is no such training, as where a mixer cannot be causal; None: there is one."""
    cell = cell_of(place, variant, "torch", "float64")
    try:
        check_task(cell)
    except UnsupportedError as error:
        return str(error)
    return None
