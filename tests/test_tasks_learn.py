"""Every learning task, in both frameworks: V learns it, and both learn the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from synthbench.backends.base import Setting
from synthbench.backends.jax import backend as jax_backend
from synthbench.backends.torch import backend as torch_backend
from synthbench.mixers.notation import parse
from synthbench.models.model import Model
from synthbench.models.spec import ModelSpec
from synthbench.models.start_values import start_values
from synthbench.tasks.catalog import TASKS, with_options
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.evaluation import answers_to, mean_loss
from synthbench.tasks.learning.examples import order_of

LEARNING = [name for name, task in TASKS.items() if issubclass(task, LearningTask)]
STEPS, BATCH = 50, 8
SIZES: dict[str, dict[str, Any]] = {  # of the model, where they are not those of a small decoder
    "listops": {"kind": "classifier", "labels": 10, "vocabulary": 16},
    "classification": {"kind": "classifier", "labels": 2},
    "span_corruption": {"kind": "encoder_decoder", "target_len": 16, "vocabulary": 400},
    "translation": {"kind": "encoder_decoder", "target_len": 24},
    "summarization": {"kind": "encoder_decoder", "target_len": 16},
    "copying": {"vocabulary": 32}, "mqar": {"vocabulary": 32}, "walks": {"vocabulary": 32},
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "mqar": {"pairs": 2},
    "listops": {"depth": 4, "arguments": 4},
    **{
        name: {"data": {"generated": {"rows": 2000}}}
        for name in ("language_model", "span_corruption", "classification", "translation",
                     "summarization")
    },
}  # fmt: skip
RECIPE = {"steps": STEPS, "learning_rate": 5e-3, "weight_decay": 0.01, "label_smoothing": 0.05}


@pytest.mark.long_but("copying", "listops", "language_model")
@pytest.mark.parametrize("name", LEARNING)
def test_v_learns_the_task_and_both_frameworks_learn_the_same(name: str) -> None:
    """50 steps of the full recipe in float64: losses within 1e-8, and then the same scores."""
    task = cast(LearningTask, with_options(TASKS[name], RECIPE | OPTIONS.get(name, {})))
    content: dict[str, Any] = {"kind": "decoder", "vocabulary": 272} | SIZES.get(name, {})
    spec = ModelSpec(d_model=16, heads=2, max_len=25, layers=1, feed_forward=24, **content)
    model, seq_len = Model(parse("V"), spec), 25 if name == "copying" else 24
    task.check_sizes(model, seq_len)
    splits = task.examples(model, seq_len, 0)
    start = start_values(model.parameters(), 0)
    losses, scores, held_out = [], [], []
    backends: list[tuple[Any, str]] = [(torch_backend, "eager"), (jax_backend, "compiled")]
    for backend, compiled in backends:
        setting = Setting(dtype="float64", compile=compiled, quick=True)
        trainer = backend.trainer(model, start, setting, task)
        before = mean_loss(answers_to(splits["test"], 32, BATCH, trainer.predict))
        produced = [
            trainer.step(
                splits["train"].batch(order_of(splits["train"], BATCH, step, 0)),
                task.learning_rate_at(step),
            )
            for step in range(STEPS)
        ]
        losses.append(trainer.losses(produced))
        answers = answers_to(splits["test"], 32, BATCH, trainer.predict)
        assert mean_loss(answers) < before - 0.02, "nothing was learned"
        held_out.append(mean_loss(answers))
        if task.generates:
            answers = [replace(a, generated=a.predictions) for a in answers]
        scores.append(task.scores(model, answers))
    np.testing.assert_allclose(losses[0], losses[1], rtol=0, atol=1e-8)
    assert held_out[0] == pytest.approx(held_out[1], abs=1e-8)
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert scores[0].keys() == dict(task.metrics).keys()
