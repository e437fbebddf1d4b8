"""Every task by name: the built-in ones in a literal dict, plug-ins as they are registered."""

from __future__ import annotations

from typing import Any

from synthbench.errors import NotationError, quote
from synthbench.metrics import Metric
from synthbench.registry import Registry
from synthbench.suites.cell import Cell
from synthbench.tasks.base import Task, require_mode, require_one_device
from synthbench.tasks.common_metrics import COMMON_METRICS
from synthbench.tasks.cost import Cost
from synthbench.tasks.derived_metrics import RESERVED
from synthbench.tasks.learning.base import LearningTask
from synthbench.tasks.learning.classification import Classification
from synthbench.tasks.learning.copying import Copying
from synthbench.tasks.learning.language_model import LanguageModel
from synthbench.tasks.learning.listops import ListOps
from synthbench.tasks.learning.mqar import Mqar
from synthbench.tasks.learning.span_corruption import SpanCorruption
from synthbench.tasks.learning.summarization import Summarization
from synthbench.tasks.learning.translation import Translation
from synthbench.tasks.learning.walks import Walks
from synthbench.tasks.options import with_options as make

TASKS: dict[str, type[Task]] = {
    "cost": Cost,
    "copying": Copying,
    "mqar": Mqar,
    "listops": ListOps,
    "language_model": LanguageModel,
    "span_corruption": SpanCorruption,
    "classification": Classification,
    "translation": Translation,
    "summarization": Summarization,
    "walks": Walks,
}


def check_class(cls: type[Task]) -> None:
    """Raise NotationError unless a class has what a task must have."""
    if cls.run is Task.run:
        raise NotationError(f"{cls.__name__} has no run(); define run(self, context)")
    if issubclass(cls, LearningTask):
        for method in ("examples", "scores"):
            if getattr(cls, method) is getattr(LearningTask, method):
                raise NotationError(f"{cls.__name__} has no {method}(); a learning task needs it")
        if getattr(cls, "metric", None) not in cls.metrics:
            raise NotationError(
                f"{cls.__name__}.metric must be one of its metrics ({', '.join(cls.metrics)}): "
                "the one that variants are compared by"
            )
    for name, metric in dict(cls.metrics).items():
        if not isinstance(metric, Metric):
            raise NotationError(
                f"{cls.__name__}.metrics[{name!r}] is {quote(metric)}; give a synthbench.Metric"
            )
        if name in RESERVED or COMMON_METRICS.get(name, metric) != metric:
            raise NotationError(
                f"{cls.__name__}.metrics[{name!r}]: synthbench itself uses this name for something "
                "else; give the metric another name"
            )


TASK_REGISTRY: Registry[Task] = Registry(
    "task",
    Task,
    TASKS,
    group="synthbench.tasks",
    page="docs/adding_a_task.md",
    check=check_class,
)


def find(name: str) -> type[Task]:
    """The class of a task; raises UnknownNameError with the known names."""
    return TASK_REGISTRY.find(name)


def task_of(cell: Cell) -> Task:
    """The task of a cell with its options; raises what is wrong with its name or its options."""
    cls = find(cell.task)
    return with_options(cls, cell.options)


def check_task(cell: Cell) -> None:
    """Raise what is wrong with a cell's task, its options, or the cell for this task."""
    task = task_of(cell)
    require_mode(task, cell)
    require_one_device(task, cell)
    task.check(cell)


def with_options(cls: type[Task], options: dict[str, Any]) -> Task:
    """A task with these options; raises NotationError or UnknownNameError for wrong ones."""
    return make("task", cls, options)
