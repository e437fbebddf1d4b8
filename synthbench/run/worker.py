"""Do the task of one cell in this process."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from synthbench.backends.base import Backend
from synthbench.measure.plausibility import ImplausibleError
from synthbench.record import Ceiling, Measurements, Parity
from synthbench.suites.cell import Cell
from synthbench.suites.settings import Measure
from synthbench.tasks.base import TaskContext
from synthbench.tasks.catalog import task_of

Report = Callable[[str, Measurements], None]


def run_cell(
    backend: Backend,
    cell: Cell,
    measure: Measure,
    parity: Parity | None = None,
    report: Report = lambda stage, measured: None,
    ceiling: Ceiling | None = None,
    available_memory: int | None = None,
) -> tuple[Measurements, list[str]]:
    """The measurements of a cell, and a note for each part of them that failed.

    `report` is called before each stage with what is measured so far. Raises what the task
    raises, and ImplausibleError for a value that is not possible, such as a negative count.
    """
    measured = Measurements(parity=parity)
    context = TaskContext(backend, cell, measure, measured, report, ceiling, available_memory)
    notes = task_of(cell).run(context)
    return checked(measured), notes


def checked(measured: Measurements) -> Measurements:
    """The same measurements; raises ImplausibleError where a value is not possible."""
    try:
        return Measurements.model_validate(measured.model_dump())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ImplausibleError(
            f"{where} is {first['input']}, which is not possible: {first['msg']}"
        ) from error
