"""Train the model of a cell by the recipe of a learning task, and score it on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from synthbench.backends.base import Batch, Trainer
from synthbench.errors import DataError, DivergedError
from synthbench.measure.memory_prediction import predict_on_devices
from synthbench.mixers.base import Array
from synthbench.record import Evaluation, Training
from synthbench.tasks.base import TaskContext
from synthbench.tasks.learning.evaluation import answers_to, mean_loss
from synthbench.tasks.learning.examples import SPLITS, Examples, order_of
from synthbench.tasks.learning.saved_state import SavedState, read_state, write_state
from synthbench.tasks.learning.weight_spread import spread_metrics

if TYPE_CHECKING:
    from synthbench.tasks.learning.base import LearningTask

STEPS_AT_ONCE = 25  # whose batches are made before they are timed
WITH_BACKWARD = 3  # FLOPs of a train step, in those of its forward pass


@dataclass
class Loop:
    """A training in progress."""

    task: LearningTask
    context: TaskContext
    trainer: Trainer
    splits: Mapping[str, Examples]
    training: Training
    steps: int = 0  # done
    seconds: float = 0.0  # of these steps
    recent: list[float] = field(default_factory=list)  # losses since the last evaluation

    def run(self) -> None:
        """Train to the end; raises DivergedError at the first loss that is not finite."""
        self.warm_up()
        self.go_on_from_saved()
        if not self.training.evaluations:
            self.evaluate()
        for begin, end in pairwise(evaluation_steps(self.task)):
            if self.training.stopped_early:
                break
            if end <= self.steps:
                continue
            for first in range(begin, end, STEPS_AT_ONCE):
                self.train(range(first, min(first + STEPS_AT_ONCE, end)))
            self.evaluate()
            self.training.stopped_early = self.should_stop() and end < self.task.steps
            self.save()

    def warm_up(self) -> None:
        """Compile and start thread pools in one step that leaves no trace."""
        self.context.stage("compiling")
        before = self.trainer.state()
        self.trainer.losses([self.trainer.step(self.batch_of(0), 0.0)])
        self.trainer.restore(before, 0)

    def go_on_from_saved(self) -> None:
        """Take up the training where a killed process left it."""
        folder = self.context.folder
        saved = None if folder is None else read_state(folder)
        if saved is None or saved.training.data != self.training.data:
            return
        self.trainer.restore(saved.state, saved.steps)
        self.steps, self.seconds = saved.steps, saved.seconds
        resumed = saved.training.resumed + 1
        self.training = saved.training.model_copy(update={"resumed": resumed})
        self.context.measured.training = self.training
        if self.training.evaluations:  # of one that had stopped early, there will be no other
            self.context.measured.values = dict(self.training.evaluations[-1].metrics)

    def save(self) -> None:
        """Save what a later process would need to go on."""
        if self.context.folder is not None and self.steps < self.task.steps:
            state = SavedState(self.steps, self.seconds, self.training, self.trainer.state())
            write_state(self.context.folder, state)

    def train(self, steps: range) -> None:
        """Do some steps; only the steps themselves are timed."""
        batches = [self.batch_of(step) for step in steps]
        rates = [self.task.learning_rate_at(step) for step in steps]
        begin = time.perf_counter()
        produced = [self.trainer.step(b, rate) for b, rate in zip(batches, rates, strict=True)]
        losses = self.trainer.losses(produced)
        self.seconds += time.perf_counter() - begin
        wrong = np.flatnonzero(~np.isfinite(losses))
        if wrong.size:
            self.training.diverged_step = steps.start + int(wrong[0]) + 1
            raise DivergedError(
                f"the loss is {losses[wrong[0]]} at step {self.training.diverged_step} of "
                f"{self.task.steps}; a smaller learning_rate or a longer warmup may help"
            )
        self.recent += losses.tolist()
        self.steps = steps.stop
        left = self.seconds / self.steps * (self.task.steps - self.steps)
        self.context.progress(
            f"step {self.steps} of {self.task.steps}, loss {losses.mean():.3f}", left
        )

    def batch_of(self, step: int) -> Batch:
        """The batch of a step, from the cell's seed alone."""
        cell, examples = self.context.cell, self.splits["train"]
        return examples.batch(order_of(examples, cell.batch, step, cell.seed))

    def evaluate(self) -> None:
        """Score the model on held-out examples."""
        self.context.stage(f"scoring after step {self.steps}")
        cell, task = self.context.cell, self.task
        answers = answers_to(
            self.splits["test"], task.held_out, cell.batch, self.trainer.predict,
            self.generator() if task.generates else None,
        )  # fmt: skip
        loss = mean_loss(answers)
        if not math.isfinite(loss):
            self.training.diverged_step = max(self.steps, 1)
            raise DivergedError(f"the held-out loss is {loss} after step {self.steps}")
        metrics = task.scores(self.context.model, answers)
        if task.spread:
            metrics |= spread_metrics(
                self.context.model, self.trainer.parameters(), self.splits["test"], task.held_out
            )
        forward = self.context.model.flops(batch=cell.batch, seq_len=cell.seq_len)
        evaluation = Evaluation(
            step=self.steps,
            tokens=self.steps * cell.batch * self.context.model.input_len(cell.seq_len),
            seconds=self.seconds,
            flops=None if forward is None else WITH_BACKWARD * forward * self.steps,
            train_loss=float(np.mean(self.recent)) if self.recent else None,
            loss=loss,
            metrics=metrics,
        )
        self.recent = []
        self.training.evaluations.append(evaluation)
        self.context.measured.values = dict(evaluation.metrics)

    def generator(self) -> Callable[[Batch], Array]:
        """What writes targets with the parameters as they are now."""
        context, parameters = self.context, self.trainer.parameters()
        return lambda batch: self.task.generate(
            context.backend, context.model, parameters, context.setting, batch
        )

    def should_stop(self) -> bool:
        """Whether the metric has not become better for `patience` evaluations."""
        patience = self.task.patience
        if patience is None:
            return False
        values = [e.metrics[self.task.metric] for e in self.training.evaluations]
        if self.task.metrics[self.task.metric].better == "lower":
            values = [-value for value in values]
        best = int(np.argmax(values))
        return len(values) - 1 - best >= patience


def train_cell(task: LearningTask, context: TaskContext) -> list[str]:
    """Train and score the model of a cell; the curve is in `context.measured.training`.

    Raises DivergedError where the loss is no longer finite, and DataError for unusable data.
    """
    cell, model, measured = context.cell, context.model, context.measured
    context.stage("reading the data")
    splits = task.examples(model, cell.seq_len, cell.seed)
    for name in SPLITS:
        if name not in splits or splits[name].size == 0:
            raise DataError(f"task {task.name}: its split {name} is empty; give more examples")
    declared = model.parameters()
    measured.declared_parameters = sum(p.size for p in declared.values() if p.trainable)
    context.stage("predicting memory")
    context.require_memory(predict_on_devices(context.backend, model, cell))
    context.stage("building")
    trainer = context.backend.trainer(model, context.start_values(), context.setting, task)
    measured.parameters, measured.constants = trainer.parameter_count, trainer.constant_count
    measured.training = Training(
        metric=task.metric,
        data={name: splits[name].digest for name in SPLITS},
        steps=task.steps,
        evaluations=[],
    )
    loop = Loop(task, context, trainer, splits, measured.training)
    with closing(trainer):
        loop.run()
        if task.keep:
            context.keep(trainer.parameters())
    return task.notes()


def evaluation_steps(task: LearningTask) -> list[int]:
    """After which steps the model is scored: before the first, after the last, evenly between."""
    marks = np.linspace(0, task.steps, min(task.evaluations, task.steps) + 1)
    return [int(step) for step in np.unique(np.round(marks))]
