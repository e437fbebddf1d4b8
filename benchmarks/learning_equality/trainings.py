"""Train one variant in both frameworks through the product's own loop, and compare the curves."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import numpy as np

from benchmarks.learning_equality.finding import Finding, largest
from benchmarks.learning_equality.settings import FRAMEWORKS, Place, cell_of, why_not
from synthbench.backends.base import BACKENDS, Backend, Setting, Trainer
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.recipe import Recipe
from synthbench.record import Evaluation, Measurements
from synthbench.suites.measure import Measure
from synthbench.tasks.base import TaskContext
from synthbench.tasks.catalog import task_of

TOLERANCE = {"float64": 1e-8, "float32": 1e-3}
LOSS, HELD_OUT = "loss", "held-out loss"


@dataclass
class Curve:
    """What a training gave: the loss of each step, and the evaluations."""

    losses: list[float] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)


class QuickContext(TaskContext):
    """The context of a cell whose programs XLA compiles in less time."""

    @property
    def setting(self) -> Setting:
        """How the model is run."""
        return replace(super().setting, quick=True)


class Trainers:
    """Trainers by what they were made from: tasks with the same model use the same program."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Trainer, dict[str, Array]]] = {}

    def get(
        self, framework: str, model: Model, start: Mapping[str, Array], setting: Setting,
        recipe: Recipe,
    ) -> Trainer:  # fmt: skip
        """A trainer that has done no step."""
        parts = {part.name: getattr(recipe, part.name) for part in fields(Recipe)}
        key = framework, model, setting, Recipe(**parts)
        if key not in self.kept:
            backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
            made = backend.trainer(model, start, setting, recipe)
            self.kept[key] = made, dict(made.state())
        trainer, before = self.kept[key]
        trainer.restore(before, 0)
        return trainer


class RecordingBackend:
    """A framework's back end whose trainers note the loss of each step in a curve."""

    def __init__(self, framework: str, trainers: Trainers, curve: Curve) -> None:
        self.framework, self.trainers, self.curve = framework, trainers, curve
        self.inner = importlib.import_module(BACKENDS[framework])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def predict_memory(self, *_: Any) -> None:
        """No plan: JAX would compile the step for it, and what is trained here is small."""

    def trainer(self, *arguments: Any) -> RecordingTrainer:
        """The framework's trainer, recorded."""
        return RecordingTrainer(self.trainers.get(self.framework, *arguments), self.curve)


class RecordingTrainer:
    """A framework's trainer that notes the loss of each step in a curve."""

    def __init__(self, inner: Trainer, curve: Curve) -> None:
        self.inner, self.curve = inner, curve

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def losses(self, produced: Sequence[Any]) -> Array:
        """The losses of steps."""
        found: Array = self.inner.losses(produced)
        self.curve.losses += found.tolist()
        return found

    def restore(self, state: Mapping[str, Array], steps: int) -> None:
        """Put a state back, as after the step that only compiles."""
        self.inner.restore(state, steps)
        del self.curve.losses[steps:]


def train(
    place: Place, variant: str, framework: str, dtype: str, trainers: Trainers | None = None
) -> Curve:
    """Run the whole training of a cell: the losses of its steps, and its evaluations."""
    curve, measured = Curve(), Measurements()
    cell = cell_of(place, variant, framework, dtype)
    backend = cast(Backend, RecordingBackend(framework, trainers or Trainers(), curve))
    context = QuickContext(backend, cell, Measure(), measured, lambda stage, values: None)
    task_of(cell).run(context)
    assert measured.training is not None
    curve.evaluations = measured.training.evaluations
    return curve


def compare_trainings(
    place: Place, variant: str, dtype: str, trainers: Trainers | None = None
) -> Finding:
    """Both frameworks' curves side by side; an error of one of them is part of the finding."""
    found = Finding(place, variant, dtype, tolerance=TOLERANCE[dtype])
    found.skipped = why_not(place, variant) or ""
    if found.skipped:
        return found
    try:
        curves = [train(place, variant, each, dtype, trainers) for each in FRAMEWORKS]
    except Exception as error:  # whatever it is, the others are tried too
        found.problem = f"{type(error).__name__}: {error}"
        return found
    return compare_curves(found, *curves)


def compare_curves(found: Finding, one: Curve, other: Curve) -> Finding:
    """The largest differences of the losses, of the held-out losses and of each metric."""
    lengths = {(len(curve.losses), len(curve.evaluations)) for curve in (one, other)}
    if len(lengths) > 1:
        found.problem = f"steps and evaluations differ in number: {sorted(lengths)}"
        return found
    losses = np.array(one.losses), np.array(other.losses)
    found.errors[LOSS] = largest(*losses)
    scores = [held_out_of(curve.evaluations) for curve in (one, other)]
    for name in scores[0]:
        difference = largest(scores[0][name], scores[1][name], relative=True)
        # In float32 two answers may be so close that each framework prefers another: that moves a
        # metric by a whole answer, however small the error is.
        judged = found.dtype == "float64" or name == HELD_OUT
        (found.errors if judged else found.further)[name] = difference
    found.notes["loss fell by"] = float(losses[0][:5].mean() - losses[0][-5:].mean())
    return found


def held_out_of(evaluations: Sequence[Evaluation]) -> dict[str, Array]:
    """The held-out loss and each metric, over the evaluations."""
    found = {HELD_OUT: np.array([each.loss for each in evaluations])}
    for name in evaluations[0].metrics:
        found[name] = np.array([each.metrics[name] for each in evaluations])
    return found
