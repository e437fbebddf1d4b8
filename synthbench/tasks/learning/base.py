"""What a learning task is: examples, a recipe, and how held-out examples are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from synthbench.backends.base import Backend, Batch, Setting
from synthbench.errors import NotationError, UnsupportedError
from synthbench.measure.parity import check_cell
from synthbench.mixers.base import Array
from synthbench.models.layer_weights import require_weights
from synthbench.models.model import Model
from synthbench.models.recipe import Recipe
from synthbench.models.spec import LARGEST_SIZE, ModelKind
from synthbench.record import Parity
from synthbench.suites.cell import Cell, Mode, model_of
from synthbench.tasks.base import Task, TaskContext
from synthbench.tasks.learning.evaluation import Answer
from synthbench.tasks.learning.examples import Examples
from synthbench.tasks.learning.loop import train_cell
from synthbench.tasks.learning.ranges import require_ranges
from synthbench.tasks.options import TYPES


@dataclass(frozen=True)
class LearningTask(Task, Recipe):
    """A task that trains a model, then scores it; subclass it to add one.

    A subclass sets `name`, `kinds`, `metric` and `metrics`, and defines `examples` and `scores`.
    The fields of the recipe are its first options.
    """

    evaluations: int = 10  # of held-out examples, spread evenly; there is one before the first step
    held_out: int = 256  # held-out examples of each of them, at most
    # of the metric: how soon is it reached?
    target: float | None = field(default=None, metadata={TYPES: (float,)})
    # evaluations without a better metric before it stops; None: never
    patience: int | None = field(default=None, metadata={TYPES: (int,)})
    keep: bool = False  # the trained parameters, as a checkpoint that `synthbench inspect` draws
    spread: bool = False  # of the mixers' weights, at each evaluation: see weight_spread.py

    modes: ClassVar[tuple[Mode, ...]] = ("train",)
    on_several_devices: ClassVar[bool] = True
    kinds: ClassVar[tuple[ModelKind, ...]] = ()
    metric: ClassVar[str]  # which of `metrics` variants are compared by
    generates: ClassVar[bool] = False  # whether its scores need generated targets
    pads: ClassVar[bool] = True  # whether its batches may have padding

    def examples(self, model: Model, seq_len: int, seed: int) -> Mapping[str, Examples]:
        """The splits `train` and `test`; what is generated depends on the seed alone."""
        raise NotImplementedError(f"{type(self).__name__} defines no examples()")

    def scores(self, model: Model, answers: Sequence[Answer]) -> dict[str, float]:
        """The value of each metric on held-out examples."""
        raise NotImplementedError(f"{type(self).__name__} defines no scores()")

    def generate(
        self,
        backend: Backend,
        model: Model,
        parameters: Mapping[str, Array],
        setting: Setting,
        batch: Batch,
    ) -> Array:
        """Token ids [B,T] that the model writes for a batch, of a task that `generates`."""
        raise NotImplementedError(f"{type(self).__name__} defines no generate()")

    def check_parity(self, backend: Backend, cell: Cell) -> Parity:
        """As any task; also with padding, unless the task has none, and without a reference."""
        return check_cell(backend, cell, padded=self.pads, learns=True)

    def run(self, context: TaskContext) -> list[str]:
        """Train and score; see `train_cell`."""
        return train_cell(self, context)

    def notes(self) -> list[str]:
        """What a person should know about the scores, as the settings of a published metric."""
        return []

    def check(self, cell: Cell) -> None:
        """Raise UnsupportedError for a kind of model that cannot do this task."""
        if cell.model.kind not in self.kinds:
            raise UnsupportedError(
                f"task {self.name} needs a model of kind {' or '.join(self.kinds)}; "
                f"got {cell.model.kind}"
            )
        counts = (self.steps, self.evaluations, self.held_out)
        if not all(1 <= count <= LARGEST_SIZE for count in counts):
            raise NotationError(
                f"task {self.name}: steps, evaluations and held_out are 1 to {LARGEST_SIZE}; got "
                f"{self.steps}, {self.evaluations} and {self.held_out}"
            )
        require_ranges(self)
        model = model_of(cell)
        if self.spread:
            require_weights(model.mixer, "leave out the option spread, or the mixer")
        self.check_sizes(model, cell.seq_len)

    def check_sizes(self, model: Model, seq_len: int) -> None:
        """Raise UnsupportedError where the model is too small for the task."""
