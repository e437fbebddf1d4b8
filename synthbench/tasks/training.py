"""Train the model of a cell to look at what it learned; nothing is recorded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from synthbench.backends.base import BACKENDS, Backend, Batch
from synthbench.errors import NotationError, UnsupportedError, quote
from synthbench.measure.inputs import setting_of
from synthbench.mixers.base import Array
from synthbench.models.start_values import start_values
from synthbench.suites.cell import Cell, model_of
from synthbench.tasks.catalog import check_task, find, task_of
from synthbench.tasks.data.read import is_text
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.examples import Examples, order_of
from synthbench.tasks.learning.text import TextTask

DEFAULT = "walks"  # what a model of a cell without a learning task is trained on
STEPS = 300


@dataclass(frozen=True)
class Training:
    """The loss before each step, and the parameters at the end."""

    losses: list[float]
    end: dict[str, Array]


def as_learning(cell: Cell, task: str | None = None, steps: int | None = None) -> Cell:
    """The cell as one of a learning task: its own, the one named, or the default.

    Raises UnknownNameError for an unknown task, and UnsupportedError where the model cannot do it.
    """
    is_learning = issubclass(find(cell.task), LearningTask)
    if is_learning and task in (None, cell.task):
        options = cell.options | ({} if steps is None else {"steps": steps})
    else:
        task, options = task or DEFAULT, {"steps": STEPS if steps is None else steps}
    asked = cell.changed(task=task or cell.task, options=options, mode="train", devices=1)
    if not issubclass(find(asked.task), LearningTask):
        raise UnsupportedError(f"task {asked.task} trains nothing; name a learning task")
    check_task(asked)
    return asked


def held_out_batch(cell: Cell) -> Batch:
    """One batch of held-out examples of a learning cell."""
    examples = _splits(cell)["test"]
    size = cell.batch if examples.size is None else min(cell.batch, examples.size)
    return examples.batch(order_of(examples, size, 0, 0))


def held_out_example(cell: Cell, number: int) -> Batch:
    """One held-out example of a learning cell; raises NotationError for one that does not exist."""
    examples = _splits(cell)["test"]
    if examples.size is not None and number >= examples.size:
        raise NotationError(
            f"example {number} does not exist; choose one from 0 to {examples.size - 1}"
        )
    return examples.batch(np.array([number]))


def text_example(cell: Cell, text: str, target: str | None) -> Batch:
    """A text as the model of a learning cell reads it.

    Raises UnsupportedError for a task without texts, NotationError for a target too much or too
    little.
    """
    for option, given in (("--text", text), ("--target", target)):
        if given is not None and not is_text(given):
            raise NotationError(f"{option} {quote(given)} is not valid UTF-8; give a text")
    task, model = task_of(cell), model_of(cell)
    if not isinstance(task, TextTask):
        raise UnsupportedError(
            f"task {cell.task} does not learn from texts; leave out the text and choose a held-out "
            "example by its number"
        )
    task.examples(model, cell.seq_len, cell.seed)  # reads the texts, from which tokens are learned
    return task.read(model, cell.seq_len, text, target)


def _splits(cell: Cell) -> Mapping[str, Examples]:
    task = cast(LearningTask, task_of(cell))
    return task.examples(model_of(cell), cell.seq_len, cell.seed)


def train(cell: dict[str, Any], stop_after: int | None = None) -> Training:
    """Train the model of a learning cell (as JSON holds it); runs in a process of its framework.

    `stop_after`: how many of its steps; None: all.
    """
    asked = Cell.model_validate(cell)
    backend = cast(Backend, importlib.import_module(BACKENDS[asked.framework]))
    task, model = cast(LearningTask, task_of(asked)), model_of(asked)
    start = start_values(model.parameters(), asked.seed)
    examples = _splits(asked)["train"]
    trainer = backend.trainer(model, start, setting_of(asked), task)
    produced = [
        trainer.step(
            examples.batch(order_of(examples, asked.batch, step, asked.seed)),
            task.learning_rate_at(step),
        )
        for step in range(task.steps if stop_after is None else stop_after)
    ]
    return Training(trainer.losses(produced).tolist(), trainer.parameters())
