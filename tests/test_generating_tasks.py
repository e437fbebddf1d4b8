"""Tasks that write text: the loop has them written by search, in both frameworks alike."""

from __future__ import annotations

from typing import Any

import pytest

from synthbench.backends.jax import backend as jax_backend
from synthbench.backends.torch import backend as torch_backend
from synthbench.record import Measurements
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.tasks.base import TaskContext
from synthbench.tasks.catalog import task_of

BACKENDS: dict[str, Any] = {"torch": torch_backend, "jax": jax_backend}


@pytest.mark.long_but("*-1")
@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("name", ["translation", "summarization"])
def test_both_frameworks_write_and_score_the_same(name: str, beams: int) -> None:
    options = {
        "steps": 4, "evaluations": 1, "held_out": 4, "beams": beams, "learning_rate": 5e-3,
        "data": {"generated": {"rows": 60}},
    }  # fmt: skip
    found, notes = [], []
    for framework, backend in BACKENDS.items():
        cell = Cell.from_flat(
            variant="V", framework=framework, task=name, options=options, mode="train",
            seq_len=40, batch=4, compile="eager" if framework == "torch" else "compiled",
            model="encoder_decoder", d_model=16, heads=2, max_len=40, vocabulary=272,
            target_len=12, dtype="float64",
        )  # fmt: skip
        measured = Measurements()
        context = TaskContext(backend, cell, Measure(), measured, lambda stage, m: None)
        task = task_of(cell)
        task.check(cell)
        notes.append(task.run(context))
        assert measured.training is not None
        assert [e.step for e in measured.training.evaluations] == [0, 4]
        found.append(measured.values)
        assert set(measured.values) == set(task.metrics)
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert notes[0] == notes[1]
    assert ("BLEU: " in str(notes[0])) == (name == "translation")
