"""What a task is: what a cell does, and the metrics that come out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, NamedTuple

from synthbench.backends.base import Backend, Batch, MemoryPlan, Setting
from synthbench.checkpoint import write_checkpoint
from synthbench.errors import UnsupportedError
from synthbench.kernel import Kernel
from synthbench.measure.inputs import random_batch, setting_of
from synthbench.measure.memory_prediction import require_memory
from synthbench.measure.own_length import check_own_length
from synthbench.measure.parity import check_cell
from synthbench.metrics import Metric
from synthbench.mixers.base import Array
from synthbench.models.model import Model
from synthbench.models.start_values import start_values
from synthbench.record import Measurements, OwnLength, Parity, PredictedMemory
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell, Mode, model_of
from synthbench.suites.measure import Measure
from synthbench.tasks.programs import Programs
from synthbench.tasks.progress import write_progress


class Baseline(NamedTuple):
    """The cell of the baseline, and the kernel that the run has chosen for it."""

    cell: Cell
    kernel: Kernel | None


@dataclass
class TaskContext:
    """What the harness gives to a task in the child process of one cell."""

    backend: Backend
    cell: Cell
    measure: Measure  # how the suite asks for it to be measured
    measured: Measurements  # the task fills this in; the parity check is already there
    report: Callable[[str, Measurements], None]
    ceiling: Ceiling | None = None  # the device's best rate; None: not measured
    available_memory: int | None = None  # bytes the cell may take; None: not limited
    folder: Path | None = None  # for what a killed cell goes on from; None: it starts again
    checkpoints: Path | None = None  # the folder for parameters to keep
    baseline: Baseline | None = None  # whose steps are timed in turn with those of the cell
    kernel: Kernel | None = None  # that the run has chosen for the cell
    programs: Programs | None = None  # None: each process compiles
    cores_may_be_near: bool = True  # whether waking the cores can bring them together
    planned: Cell | None = None  # what the run's plan calls the cell, if that is not the same

    @cached_property
    def model(self) -> Model:
        """The model of the cell."""
        return model_of(self.cell)

    @property
    def setting(self) -> Setting:
        """How the model is run: dtype, device, form, eager or compiled."""
        return setting_of(self.cell)

    def start_values(self) -> dict[str, Array]:
        """The start values of every parameter, from the cell's seed."""
        return start_values(self.model.parameters(), self.cell.seed)

    def batch(self) -> Batch:
        """A random batch of the cell's sizes, from the cell's seed."""
        return random_batch(self.model, self.cell.batch, self.cell.seq_len, self.cell.seed)

    def stage(self, name: str) -> None:
        """Begin a stage: what is measured so far is kept if the process dies in it."""
        self.report(name, self.measured)

    def progress(self, text: str, seconds_left: float) -> None:
        """Say how far the cell is, for the person who waits."""
        if self.folder is not None:
            write_progress(self.folder, text, seconds_left)

    def keep(self, parameters: Mapping[str, Array]) -> None:
        """Write the parameters of the cell's model as a checkpoint, under the id of its record."""
        if self.checkpoints is not None:
            cell = self.planned or self.cell
            write_checkpoint(self.checkpoints / f"{cell.id}.npz", cell, parameters)

    def require_memory(self, plan: MemoryPlan) -> None:
        """Store a predicted peak; raises TooLargeError if it is more than available."""
        self.measured.predicted_memory = PredictedMemory(
            bytes=plan.peak_bytes, tool=plan.tool, available=self.available_memory
        )
        self.stage("predicting memory")
        require_memory(self.measured.predicted_memory)


@dataclass(frozen=True)
class Task:
    """What a cell does; subclass it to add a task.

    A subclass is a frozen dataclass whose fields are its options, each with a default. It sets
    `name` and defines `run`. The harness checks parity before it, limits its memory and time, and
    turns anything it raises into an outcome.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    metrics: ClassVar[Mapping[str, Metric]] = {}
    modes: ClassVar[tuple[Mode, ...]] = ("forward", "train")
    on_several_devices: ClassVar[bool] = False  # whether they can share its batches

    def check(self, cell: Cell) -> None:
        """Raise ShapeError or UnsupportedError if this task cannot do such a cell."""

    def check_parity(self, backend: Backend, cell: Cell) -> Parity:
        """Compare the cell's code with the reference on a small input, before anything runs."""
        return check_cell(backend, cell)

    def check_own_length(self, backend: Backend, cell: Cell, available: int | None) -> OwnLength:
        """Compare the cell's code with a reference at the cell's own length, within this memory."""
        return check_own_length(backend, cell, available)

    def run(self, context: TaskContext) -> list[str]:
        """Do the cell: fill in `context.measured`; returns a note for each part that failed."""
        raise NotImplementedError(f"{type(self).__name__} defines no run()")


def require_mode(task: Task, cell: Cell) -> None:
    """Raise UnsupportedError if a task does not have this mode."""
    if cell.mode not in task.modes:
        raise UnsupportedError(
            f"task {task.name} has no mode {cell.mode}; use {' or '.join(task.modes)}"
        )


def require_one_device(task: Task, cell: Cell) -> None:
    """Raise UnsupportedError for a cell on several devices whose task cannot use them."""
    if cell.devices > 1 and not task.on_several_devices:
        raise UnsupportedError(
            f"task {task.name} uses one device; got devices {cell.devices}: learning tasks, and "
            "train steps of task cost, can share their batches among several"
        )
