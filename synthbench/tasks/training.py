"""What a model's mixers weigh, before and after it has learnt a small task in a framework."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, cast

from synthbench.backends.base import BACKENDS, Backend, Batch
from synthbench.measure.inputs import setting_of
from synthbench.mixers.base import Array
from synthbench.models.start_values import start_values
from synthbench.suites.cell import Cell, model_of
from synthbench.tasks.walks import example


@dataclass(frozen=True)
class Learnt:
    """Losses of a training, and the parameters it began and ended with."""

    losses: list[float]
    before: dict[str, Array]
    after: dict[str, Array]


def learn(cell: dict[str, Any], steps: int) -> Learnt:
    """Train the model of a cell (as JSON holds it) on its small task, in the cell's framework."""
    asked = Cell.model_validate(cell)
    backend = cast(Backend, importlib.import_module(BACKENDS[asked.framework]))
    model = model_of(asked)
    start = start_values(model.parameters(), asked.seed)
    batches = [
        Batch(*example(model, asked.batch, asked.seq_len, asked.seed, step))
        for step in range(steps)
    ]
    trained = backend.train(model, start, setting_of(asked), batches)
    return Learnt(trained.losses, start, trained.parameters)
