"""Do the task of one cell in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from synthbench.backends.base import Backend
from synthbench.errors import quote
from synthbench.kernel import Kernel
from synthbench.measure.plausibility import ImplausibleError
from synthbench.record import Measurements, Parity
from synthbench.run_info import Ceiling
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.tasks.base import Baseline, TaskContext
from synthbench.tasks.catalog import task_of
from synthbench.tasks.programs import Programs

Report = Callable[[str, Measurements], None]


def run_cell(
    backend: Backend,
    cell: Cell,
    measure: Measure,
    parity: Parity | None = None,
    report: Report = lambda stage, measured: None,
    ceiling: Ceiling | None = None,
    available_memory: int | None = None,
    folder: Path | None = None,
    checkpoints: Path | None = None,
    baseline: Baseline | None = None,
    kernel: Kernel | None = None,
    programs: Programs | None = None,
    cores_may_be_near: bool = True,
    planned: Cell | None = None,
) -> tuple[Measurements, list[str]]:
    """The measurements of a cell, and a note for each part of them that failed.

    `report` is called before each stage with what is measured so far. `folder` is for what the cell
    goes on from if it is killed, `checkpoints` for parameters that are kept. `baseline`: see
    `tasks.paired`; `cores_may_be_near`: `UsualDistance`; `planned`: as in TaskContext. Raises what
    the task raises, and ImplausibleError for a value that is not possible, such as a negative
    count: none is reported.
    """
    measured = Measurements(parity=parity)

    def checked(stage: str, found: Measurements) -> None:
        """Report only what a record can hold: a task may have filled in anything."""
        report(stage, Measurements.model_validate(found.model_dump()))

    context = TaskContext(
        backend, cell, measure, measured, checked, ceiling, available_memory, folder, checkpoints,
        baseline, kernel, programs, cores_may_be_near, planned,
    )  # fmt: skip
    try:
        notes = task_of(cell).run(context)
        return Measurements.model_validate(measured.model_dump()), notes
    except ValidationError as error:  # of what was measured: a negative or boundless value
        first = error.errors()[0]
        where = ".".join(str(part) for part in (error.title, *first["loc"]))
        raise ImplausibleError(
            f"{where} is {quote(first['input'])}, which is not possible: {first['msg']}"
        ) from error
