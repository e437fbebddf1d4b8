"""What the processes of a run share: compiled programs, and counts that are always the same."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from synthbench.backends.base import Step
from synthbench.backends.kernel_record import recording_kernels
from synthbench.kernel import Kernel
from synthbench.suites.cell import Cell

T = TypeVar("T")


class Programs(NamedTuple):
    """What the processes of a run have compiled and counted, each in a file of this folder.

    `load_own`: whether the cell loads its own program from there: an earlier process of this run
    has measured how long compiling it takes.
    """

    folder: Path
    load_own: bool

    def file(self, cell: Cell, kernel: Kernel | None) -> Path:
        """Of a cell's program: the same for the same content and kernel."""
        name = f"{cell.changed(replica=0).id} {'' if kernel is None else kernel.name}"
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:16]


def counted_once(
    programs: Programs | None, what: str, cell: Cell, kernel: Kernel | None, count: Callable[[], T]
) -> T:
    """What an earlier process of this run counted for the same content and kernel, or `count()`.

    For what no process can change, such as the FLOPs of a program. `what` names it in a file name.
    """
    if programs is None:
        return count()
    file = programs.file(cell, kernel).with_suffix(f".{what}")
    with suppress(Exception):  # whatever is wrong with the file, it can still be counted
        return cast(T, pickle.loads(file.read_bytes()))
    found = count()
    with suppress(Exception):  # a plug-in's count may hold anything
        part = file.with_name(f"{file.name}.part")
        part.write_bytes(pickle.dumps(found))
        part.replace(file)
    return found


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
