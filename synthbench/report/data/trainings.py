"""A training as stored, and a group of trainings that are compared with each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from synthbench.analysis.learning import (
    AXES,
    Axis,
    Better,
    Curve,
    End,
    Reached,
    budget_of,
    cost_to_reach,
)
from synthbench.analysis.seeds import Estimate, mean_over_seeds
from synthbench.metrics import Metric
from synthbench.record import Evaluation, Record, Training
from synthbench.report.data.grid import NOT_RUN
from synthbench.report.data.metrics import metric_named
from synthbench.tasks.catalog import TASK_REGISTRY

LOSS = "loss"  # of held-out examples; a curve beside those of the metrics


class Place(NamedTuple):
    """What the trainings of a group have in common."""

    setting: str
    task: str
    framework: str
    seq_len: int


@dataclass(frozen=True)
class Trained:
    """One training: a variant, framework and seed."""

    record: Record

    @cached_property
    def training(self) -> Training | None:
        """What it stored; None if it failed before its first evaluation."""
        return self.record.measurements.training

    @property
    def evaluations(self) -> Sequence[Evaluation]:
        """Its evaluations, the first step first."""
        return [] if self.training is None else self.training.evaluations

    @property
    def end(self) -> End:
        """How it ended."""
        if self.record.outcome == "diverged":
            return "diverged"
        if self.record.outcome != "ok" or not self.evaluations:
            return "cut short"
        is_early = self.training is not None and self.training.stopped_early
        return "stopped early" if is_early else "complete"

    @property
    def problem(self) -> str:
        """Why it has no result; empty if it has one."""
        training = self.training
        if self.record.outcome != "ok":
            at = None if training is None else training.diverged_step
            return self.record.outcome + (f" at step {at:,}" if at else "")
        return "" if self.evaluations else "no evaluation"

    def curve(self, name: str) -> Curve:
        """The held-out loss (LOSS) or a metric, over the evaluations that have it."""
        value: Callable[[Evaluation], float | None] = (
            (lambda one: one.loss) if name == LOSS else (lambda one: one.metrics.get(name))
        )
        points = [(one, found) for one in self.evaluations if (found := value(one)) is not None]
        flops = [float(one.flops) for one, _ in points if one.flops is not None]
        return Curve(
            tuple(float(one.step) for one, _ in points),
            tuple(one.seconds for one, _ in points),
            tuple(flops) if len(flops) == len(points) else (),
            tuple(found for _, found in points),
            self.end,
        )


@dataclass(frozen=True)
class Group:
    """Trainings of one task, framework and length: variant -> seed -> training.

    `metric`: what variants are compared by. `seeds`: all that any of its variants has. `target`: of
    the metric, where the suite has one.
    """

    place: Place
    metric: str
    seeds: tuple[int, ...]
    target: float | None
    variants: Mapping[str, Mapping[int, Trained]]

    @property
    def declared(self) -> Metric:
        """The declaration of the metric."""
        return self.declaration(self.metric)

    def declaration(self, name: str) -> Metric:
        """The declaration of any of its metrics; a plain number where the task is not loaded."""
        task = TASK_REGISTRY.known().get(self.place.task)
        own = {} if task is None else task.metrics
        return own.get(name) or metric_named(name)

    @property
    def metrics(self) -> list[str]:
        """Every metric of its evaluations, the one that variants are compared by first."""
        found = {
            name: None
            for seeds in self.variants.values()
            for trained in seeds.values()
            for one in trained.evaluations
            for name in one.metrics
        }
        return [name for name in dict.fromkeys([self.metric, *found]) if name in found]

    def mean(self, values: Sequence[float], name: str = "") -> Estimate:
        """The mean over seeds of a metric, by default its own, within the range of the metric."""
        return mean_over_seeds(values, self.declaration(name or self.metric).bounds)

    @property
    def better(self) -> Better | None:
        """Which values are better; None where the metric does not say."""
        better = self.declared.better
        return None if better == "neither" else better

    @cached_property
    def curves(self) -> dict[str, dict[int, Curve]]:
        """Variant -> seed -> the curve of the metric."""
        return self.curves_of(self.metric)

    def curves_of(self, name: str) -> dict[str, dict[int, Curve]]:
        """Variant -> seed -> the curve of any metric, or of the LOSS."""
        return {
            variant: {seed: one.curve(name) for seed, one in seeds.items()}
            for variant, seeds in self.variants.items()
        }

    @cached_property
    def budgets(self) -> dict[Axis, float | None]:
        """The costs at which its variants are compared; None where they are not known."""
        every = [one for seeds in self.curves.values() for one in seeds.values()]
        return {axis: budget_of(every, axis) for axis in AXES}

    def values_at(self, variant: str, axis: Axis) -> dict[int, float]:
        """Seed -> the metric at the budget, for trainings with a result."""
        budget = self.budgets[axis]
        if budget is None:
            return {}
        found = {seed: one.at(axis, budget) for seed, one in self.curves[variant].items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def final_values(self, variant: str, name: str = "") -> dict[int, float]:
        """Seed -> a metric, by default its own, at the end of each training with a result."""
        curves = self.curves_of(name) if name else self.curves
        return {
            seed: one.values[-1]
            for seed, one in curves[variant].items()
            if one.end in ("complete", "stopped early") and one.values
        }

    def problems(self, variant: str) -> dict[int, str]:
        """Seed -> why it has no result, for every seed of the group without one."""
        trained = self.variants[variant]
        found = {seed: trained[seed].problem if seed in trained else NOT_RUN for seed in self.seeds}
        return {seed: problem for seed, problem in found.items() if problem}

    def costs_to_target(self, variant: str, axis: Axis) -> list[Reached]:
        """The cost of the target for each seed that was run; none where it is not known."""
        better, found = self.better, list[Reached]()
        if self.target is None or better is None:
            return []
        curves = self.curves[variant].values()
        if any(one.steps for one in curves) and not any(getattr(one, axis) for one in curves):
            return []
        for curve in curves:
            reached = cost_to_reach(curve, axis, self.target, better)
            if reached is not None:
                found.append(reached)
            elif curve.end == "cut short" and not curve.steps:
                found.append(Reached(0.0, False))
        return found


def with_other_data(one: Mapping[int, Trained], other: Mapping[int, Trained]) -> set[int]:
    """The seeds with which two variants learned from different data, by its digests.

    A run that goes on after its file of data has changed has trainings on both.
    """
    data = [
        {seed: made.training.data for seed, made in side.items() if made.training is not None}
        for side in (one, other)
    ]
    return {seed for seed in data[0].keys() & data[1].keys() if data[0][seed] != data[1][seed]}


def seeds_text(group: Group, variant: str) -> str:
    """How many seeds have a result; if not all, of how many, and why."""
    problems = group.problems(variant)
    total = len(group.seeds)
    if not problems:
        return str(total)
    why = ", ".join(f"{count} {problem}" for problem, count in Counter(problems.values()).items())
    return f"{total - len(problems)} of {total} ({why})"
