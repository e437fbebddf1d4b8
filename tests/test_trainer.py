"""The trainers of both frameworks: they agree, go on from a state, and do what the recipe says."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.backends.base import FIRST_MOMENT, VALUE, Batch, Setting, Trainer
from synthbench.backends.jax import backend as jax_backend
from synthbench.backends.jax import training as jax_training
from synthbench.backends.jax.training import weighted_losses
from synthbench.backends.torch import backend as torch_backend
from synthbench.measure.inputs import random_batch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.recipe import Recipe
from synthbench.models.start_values import start_values

FULL = Recipe(steps=50, weight_decay=0.1, label_smoothing=0.1, clip=0.5, learning_rate=3e-3)
BACKENDS: dict[str, Any] = {"torch": torch_backend, "jax": jax_backend}
COMPILE = {"torch": "eager", "jax": "compiled"}


def stack(variant: str, kind: str = "decoder") -> Model:
    sizes = Sizes.of(d_model=16, heads=4, max_len=12)
    return Model.of(kind, parse(variant), sizes, layers=1, feed_forward=24, vocabulary=40)


def weighted(model: Model, step: int, seq_len: int = 12) -> Batch:
    batch = random_batch(model, 3, seq_len, seed=step)
    drawn = np.random.default_rng(step)
    return replace(batch, weights=(drawn.random(batch.targets.shape) < 0.7).astype(np.float32))


def trainer(framework: str, model: Model, recipe: Recipe, dtype: str = "float64") -> Trainer:
    setting = Setting(dtype=dtype, compile=COMPILE[framework], quick=True)
    start = start_values(model.parameters(), seed=1)
    made: Trainer = BACKENDS[framework].trainer(model, start, setting, recipe)
    return made


def losses(made: Trainer, model: Model, recipe: Recipe, steps: range) -> np.ndarray:
    produced = [made.step(weighted(model, s % 7), recipe.learning_rate_at(s)) for s in steps]
    return made.losses(produced)


@pytest.mark.parametrize("variant", ["V", "(R+V)(mixing=layer)", "linformer", "dynamic_conv"])
def test_random_weights_of_targets_lead_to_the_same_predictions(variant: str) -> None:
    """The full recipe in float64; every variant: test_learning_equality.py."""
    model = stack(variant, "encoder" if "linformer" in variant else "decoder")
    made = {name: trainer(name, model, FULL) for name in BACKENDS}
    torch, jax = (losses(each, model, FULL, range(FULL.steps)) for each in made.values())
    np.testing.assert_allclose(torch, jax, rtol=0, atol=1e-8)
    assert torch[-7:].mean() < torch[:7].mean(), "nothing was learned"
    held_out = weighted(model, 100)
    said = [each.predict(held_out) for each in made.values()]
    np.testing.assert_array_equal(said[0].classes, said[1].classes)
    np.testing.assert_allclose(said[0].losses, said[1].losses, rtol=0, atol=1e-8)
    np.testing.assert_allclose(said[0].weights, said[1].weights)


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_state_continues_with_the_same_bits(framework: str) -> None:
    model = stack("D+V")
    one, other = (trainer(framework, model, FULL, "float32") for _ in range(2))
    losses(one, model, FULL, range(8))
    saved = one.state()
    expected = losses(one, model, FULL, range(8, 16))
    other.restore(saved, 8)
    np.testing.assert_array_equal(losses(other, model, FULL, range(8, 16)), expected)
    for name, value in one.state().items():
        np.testing.assert_array_equal(other.state()[name], value)


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_step_before_restoring_leaves_no_trace(framework: str) -> None:
    model = stack("V")
    fresh, warm = (trainer(framework, model, FULL, "float32") for _ in range(2))
    before = warm.state()
    assert all((v == 0).all() for n, v in before.items() if n.startswith(FIRST_MOMENT))
    warm.losses([warm.step(weighted(model, 3), 1.0)])
    assert any((warm.state()[n] != v).any() for n, v in before.items() if n.startswith(VALUE))
    warm.restore(before, 0)
    steps = range(6)
    np.testing.assert_array_equal(
        losses(warm, model, FULL, steps), losses(fresh, model, FULL, steps)
    )


def test_jax_traces_a_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []

    def counting(*args: Any) -> Any:
        traced.append(args)
        return weighted_losses(*args)

    monkeypatch.setattr(jax_training, "weighted_losses", counting)
    model = stack("V")
    made = trainer("jax", model, FULL, "float32")
    before = made.state()
    made.step(weighted(model, 0), 0.0)
    made.restore(before, 0)
    losses(made, model, FULL, range(3))
    assert len(traced) == 1


@pytest.mark.parametrize("framework", BACKENDS)
def test_a_step_is_adamw_with_clipped_gradients(framework: str) -> None:
    """The first step by hand: moments, bias correction, decay, and the norm of all gradients."""
    recipe = Recipe(steps=10, weight_decay=0.2, clip=0.01)
    model, batch, rate = stack("V"), weighted(stack("V"), 0), 0.05
    made = trainer(framework, model, recipe)
    start = {n.removeprefix(VALUE): v for n, v in made.state().items() if n.startswith(VALUE)}
    open_recipe = replace(recipe, clip=0.0)
    unclipped = trainer(framework, model, open_recipe)
    unclipped.losses([unclipped.step(batch, 0.0)])
    first = unclipped.state()
    gradients = {n: first[FIRST_MOMENT + n] / (1 - recipe.b1) for n in start}
    norm = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    assert norm > recipe.clip
    made.losses([made.step(batch, rate)])
    for name, now in made.parameters().items():
        g = gradients[name] * recipe.clip / norm
        direction = g / (np.abs(g) + recipe.epsilon)
        expected = start[name] * (1 - rate * recipe.weight_decay) - rate * direction
        np.testing.assert_allclose(now, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("framework", BACKENDS)
def test_targets_of_weight_zero_do_not_count(framework: str) -> None:
    model = stack("V")
    batch = weighted(model, 0)
    assert batch.weights is not None
    other = np.where(batch.weights == 0, (batch.targets + 1) % 40, batch.targets)
    made = trainer(framework, model, FULL)
    changed = replace(batch, targets=other)
    assert (changed.targets != batch.targets).any()
    np.testing.assert_array_equal(made.predict(batch).losses, made.predict(changed).losses)
    np.testing.assert_array_equal(made.predict(batch).weights, batch.weights.sum(axis=1))


@given(steps=st.integers(1, 500), warmup=st.floats(0, 0.9), final=st.floats(0, 1), data=st.data())
def test_the_learning_rate_rises_then_falls(
    steps: int, warmup: float, final: float, data: st.DataObject
) -> None:
    recipe = Recipe(steps=steps, warmup=warmup, final=final, learning_rate=2.0)
    step = data.draw(st.integers(0, steps - 1))
    rate, last_rising = recipe.learning_rate_at(step), max(1, round(warmup * steps)) - 1
    assert 0 < rate <= 2.0 or final == 0
    if step < last_rising:
        assert rate < recipe.learning_rate_at(step + 1)
    elif step < steps - 1:
        assert rate >= recipe.learning_rate_at(step + 1)
    assert recipe.learning_rate_at(last_rising) == 2.0
    if last_rising + 1 < steps:
        assert recipe.learning_rate_at(steps) == pytest.approx(2.0 * final)
