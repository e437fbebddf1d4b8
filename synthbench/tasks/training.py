"""Train the model of a cell on a data source for a few steps, in the cell's framework."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, cast

from synthbench.backends.base import BACKENDS, Backend, Batch
from synthbench.measure.inputs import setting_of
from synthbench.mixers.base import Array
from synthbench.models.start_values import start_values
from synthbench.suites.cell import Cell, model_of
from synthbench.tasks.data.catalog import splits_of


@dataclass(frozen=True)
class Training:
    """The loss before each step, and the parameters at the start and at the end."""

    losses: list[float]
    start: dict[str, Array]
    end: dict[str, Array]


def train(cell: dict[str, Any], steps: int, data: str = "walks") -> Training:
    """Train the model of a cell (as JSON holds it); runs in a process with its framework."""
    asked = Cell.model_validate(cell)
    backend = cast(Backend, importlib.import_module(BACKENDS[asked.framework]))
    model = model_of(asked)
    start = start_values(model.parameters(), asked.seed)
    split = splits_of(data, model, asked.seq_len, asked.seed)["train"]
    batches = [Batch(*split.batch(asked.batch, step)) for step in range(steps)]
    trained = backend.train(model, start, setting_of(asked), batches)
    return Training(trained.losses, start, trained.parameters)
