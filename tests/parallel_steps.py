"""A few steps on one and on several devices, to be called in a process of a host."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np

from synthbench.backends.base import BACKENDS, Batch, Predictions, Setting, Step, Trainer
from synthbench.measure.inputs import random_batch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.recipe import Recipe
from synthbench.models.start_values import start_values

RECIPE = Recipe(steps=10, weight_decay=0.1, label_smoothing=0.1, clip=0.5, learning_rate=3e-3)
COMPILE = {"torch": "eager", "jax": "compiled"}
EXAMPLES = 4


def stack(variant: str) -> Model:
    """A small decoder; an encoder for a variant that cannot be causal."""
    sizes = Sizes.of(d_model=16, heads=4, max_len=12)
    kind = "encoder" if "linformer" in variant else "decoder"
    return Model.of(kind, parse(variant), sizes, layers=1, feed_forward=24, vocabulary=40)


def unequal(model: Model, step: int, examples: int = EXAMPLES) -> Batch:
    """A batch of which the first examples have few targets that count, and the last ones many."""
    batch = random_batch(model, examples, 12, seed=step)
    share = np.linspace(0.1, 0.9, examples)[:, None]
    drawn = np.random.default_rng(step).random(batch.targets.shape)
    return replace(batch, weights=(drawn < share).astype(np.float32))


def trainer(framework: str, variant: str, devices: int, recipe: Recipe = RECIPE) -> Trainer:
    """A trainer of `stack` in float64."""
    model = stack(variant)
    setting = Setting("float64", compile=COMPILE[framework], quick=True, devices=devices)
    backend = importlib.import_module(BACKENDS[framework])
    made: Trainer = backend.trainer(model, start_values(model.parameters(), 1), setting, recipe)
    return made


def trained(framework: str, variant: str, devices: int) -> dict[str, Any]:
    """Losses of ten steps, the states after one and after all, and predictions for 3 examples.

    `again`: the losses of the last nine steps, done again from the state after the first.
    """
    model, made = stack(variant), trainer(framework, variant, devices)

    def losses(first: int) -> np.ndarray:
        steps = range(first, RECIPE.steps)
        return made.losses(
            [made.step(unequal(model, s), RECIPE.learning_rate_at(s)) for s in steps]
        )

    try:
        one = made.losses([made.step(unequal(model, 0), RECIPE.learning_rate_at(0))])
        first = made.state()
        rest = losses(1)
        last, parameters = made.state(), made.parameters()
        predicted: Predictions = made.predict(unequal(model, 99, examples=3))
        made.restore(first, 1)
        return {
            "losses": np.concatenate([one, rest]), "first": first, "last": last,
            "parameters": parameters, "predicted": predicted, "again": losses(1),
        }  # fmt: skip
    finally:
        made.close()


def compare(framework: str, variant: str) -> list[dict[str, Any]]:
    """`trained` on two devices, then on one."""
    return [trained(framework, variant, devices) for devices in (2, 1)]


def flops_per_device(variant: str) -> list[float]:
    """FLOPs of the program of a train step in JAX as each of two devices runs it, then of one."""
    found = []
    for devices in (2, 1):
        made: Any = trainer("jax", variant, devices)
        with made.computing(trained=True):
            placed = made.placed(unequal(stack(variant), 0), made.shared)
            lowered = made.train.lower(made.values, made.moments, made.constants, 0.1, *placed)
            found.append(lowered.compile().cost_analysis()["flops"])
    return found


def padded(model: Model, examples: int = EXAMPLES) -> Batch:
    """A batch of which the first examples are mostly padding, and the last ones are not."""
    batch = random_batch(model, examples, 12)
    real = np.linspace(2, 12, examples).astype(int)[:, None]
    return replace(batch, padding_mask=np.arange(12) < real)


def train_step(
    framework: str, model: Model, batch: Batch, devices: int, compile: str | None = None
) -> Step:
    """A train step of the task `cost` in float64."""
    made = compile or COMPILE[framework]
    setting = Setting("float64", compile=made, quick=True, devices=devices)
    backend = importlib.import_module(BACKENDS[framework])
    start = start_values(model.parameters(), 1)
    step: Step = backend.build(model, start, setting, "train", batch)
    return step


def stepped(
    framework: str, variant: str, masked: bool, devices: int, compile: str | None
) -> dict[str, Any]:
    """Losses and values after two steps, the losses once more from the start, and the counts."""
    model = stack(variant)
    batch = padded(model) if masked else random_batch(model, EXAMPLES, 12)
    step: Any = train_step(framework, model, batch, devices, compile)
    start = start_values(model.parameters(), 1)

    def losses(steps: int) -> list[float]:
        found = []
        for _ in range(steps):
            produced = step()
            step.wait(produced)
            step.check(produced)
            found.append(float(step.sample(produced).item()))
        return found

    def values() -> dict[str, Any]:
        to_numpy = importlib.import_module(f"synthbench.backends.{framework}.module").to_numpy
        return {name: np.array(to_numpy(value)) for name, value in step.named_values().items()}

    try:
        step.compile()
        step.restart(start.__getitem__)  # torch compiles by a step
        found = losses(2)
        after = values()
        step.restart(start.__getitem__)
        again = losses(2)
        missing = dict(step.missing_counters)
        return {
            "losses": found, "values": after, "again": again,
            "traced": None if "traced_flops" in missing else step.traced_flops().flops,
            "parameters": step.parameter_count, "batch_bytes": step.batch_bytes,
            "parameter_bytes": step.parameter_bytes, "optimizer_bytes": step.optimizer_bytes,
            "missing": missing, "plan": step.memory_plan(),
            "compiler": step.compiler_flops(), "peak": step.device_peak_bytes(),
        }  # fmt: skip
    finally:
        step.close()


def compare_steps(
    framework: str, variant: str, masked: bool, compile: str | None = None
) -> list[dict[str, Any]]:
    """`stepped` on two devices, then on one."""
    return [stepped(framework, variant, masked, devices, compile) for devices in (2, 1)]
