"""What the processes of a run share: compiled programs, and counts that are always the same.

On a CPU with one device, and without plug-ins, also those of several runs.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from synthbench.backends.base import Operation, Program
from synthbench.backends.kernel_record import recording_kernels
from synthbench.kernel import Kernel
from synthbench.measure.user_cache import write_cached
from synthbench.record import now
from synthbench.suites.cell import Cell

T = TypeVar("T")

COMPILED = ".compiled"  # beside a program: the seconds of compiling it, and when that was


class Programs(NamedTuple):
    """What the processes of a run have compiled and counted, each in a file of a folder.

    `folder`: what is the same in every run with this code and these versions; an earlier run may
    have filled it. `of_run`: what is found anew in each run. `is_known`: whether this run has the
    compile time of the cell already.
    """

    folder: Path
    of_run: Path
    is_known: bool

    def file(self, cell: Cell, kernel: Kernel | None) -> Path:
        """Of a cell's program: the same for the same content and kernel."""
        return self.file_named(
            f"{cell.changed(replica=0).id} {'' if kernel is None else kernel.name}"
        )

    def file_named(self, name: str) -> Path:
        """Of a program that is the same in all cells of a device."""
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:16]

    @property
    def only_of_run(self) -> Programs:
        """The same, for what is found anew in each run."""
        return self._replace(folder=self.of_run)


class Compiled(NamedTuple):
    """The seconds of compiling a program, and when that was; None: just now, in this process."""

    seconds: float
    at: str | None


def counted_once(
    programs: Programs | None, what: str, cell: Cell, kernel: Kernel | None, count: Callable[[], T]
) -> T:
    """What an earlier process counted for the same content and kernel, or `count()`.

    For what no process can change, such as the FLOPs of a program. `what` names it in a file name.
    """
    if programs is None:
        return count()
    file = programs.file(cell, kernel).with_suffix(f".{what}")
    with suppress(Exception):  # whatever is wrong with the file, it can still be counted
        return cast(T, pickle.loads(file.read_bytes()))
    found = count()
    with suppress(Exception):  # a plug-in's count may hold anything
        write_cached(file, pickle.dumps(found))
    return found


def compile_or_load(program: Program, file: Path | None) -> Compiled:
    """Load a program that an earlier process has kept, or compile and keep it.

    Without a file it is compiled, and nothing is kept.
    """
    facts = None if file is None else file.with_suffix(COMPILED)
    if file is not None and facts is not None:
        with suppress(Exception):  # whatever is wrong with the files, it can still be compiled
            seconds, at = json.loads(facts.read_text())
            if program.load(file):
                return Compiled(float(seconds), str(at))
    with recording_kernels() as kernels:
        begin = time.perf_counter()
        program.compile()
        seconds = time.perf_counter() - begin
    if file is not None and facts is not None:
        program.keep(file, list(kernels))
        if file.exists():  # not every program can be kept
            write_cached(facts, json.dumps([seconds, now()]).encode())
    return Compiled(seconds, None)


def compile_operation(programs: Programs, name: str, operation: Operation) -> None:
    """Compile an operation, or load the program that an earlier process has kept.

    `name`: of the operation, with its device and shapes.
    """
    compile_or_load(operation, programs.file_named(name))
