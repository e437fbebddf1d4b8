"""The compiled programs that the processes of a run share, so that each compiles less."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import NamedTuple

from synthbench.backends.base import Step
from synthbench.backends.kernel_record import recording_kernels
from synthbench.kernel import Kernel
from synthbench.suites.cell import Cell


class Programs(NamedTuple):
    """What the processes of a run have compiled, each program in a file of this folder.

    `load_own`: whether the cell loads its own program from there: an earlier process of this run
    has measured how long compiling it takes.
    """

    folder: Path
    load_own: bool

    def file(self, cell: Cell, kernel: Kernel | None) -> Path:
        """Of a cell's program: the same for the same content and kernel."""
        name = f"{cell.changed(replica=0).id} {'' if kernel is None else kernel.name}"
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:16]


def compile_or_load(step: Step, file: Path | None, load: bool = True) -> float | None:
    """The seconds of compiling a step, whose program is then kept; None if it was loaded instead.

    Without a file it is compiled, and nothing is kept.
    """
    if file is not None and load and step.load(file):
        return None
    with recording_kernels() as kernels:
        begin = time.perf_counter()
        step.compile()
        seconds = time.perf_counter() - begin
    if file is not None:
        step.keep(file, list(kernels))
    return seconds
