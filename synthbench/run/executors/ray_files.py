"""Files of cells that travel between a node of a Ray cluster and the folder of a run.

A node need not see that folder. A cell writes into a folder of its node; what it saves there to go
on from, and parameters to keep, is sent to the process of the run. The next place that does the
cell receives what was saved last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from synthbench.record import Record
from synthbench.run.folders import (
    CAN_GO_ON,
    CHECKPOINTS,
    IN_PROGRESS,
    folder_of,
    remove_folders_of,
)
from synthbench.run_files import read_bytes, write_bytes
from synthbench.suites.cell import Cell
from synthbench.tasks.learning.saved_state import NAME as STATE

MOST_BYTES = 2**30  # of a file that travels: node, network and run hold it in memory meanwhile
PREFIX = "synthbench-ray-"
LOCK = "lock"


@dataclass(frozen=True)
class CellFile:
    """A file of a cell by its path in the run's folder; without content where it is too large."""

    path: str
    content: bytes | None
    size: int  # bytes

    def write(self, folder: Path) -> None:
        """Replace the file in a folder; raises ResultsError if that fails."""
        if self.content is not None:
            write_bytes(folder / self.path, self.content)

    @property
    def problem(self) -> str:
        """What a person should know of a file that was not sent; empty if it was."""
        if self.content is not None:
            return ""
        sizes = f"{self.size / 2**20:.0f} MiB, and at most {MOST_BYTES / 2**20:.0f} MiB are sent"
        if Path(self.path).name == STATE:
            return f"a saved state has {sizes}: if its worker dies, that training begins anew"
        return f"{self.path} has {sizes}: these parameters are not kept"


class NodeFolder:
    """A folder on a node that stands for the run's folder there, as long as this process lives.

    Folders that killed processes have left on the node are removed when a new one is made.
    """

    def __init__(self) -> None:
        _remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        locked = self.path / f"{LOCK}.new"
        self._lock = os.open(locked, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # released when this process ends, however it does
        os.replace(locked, self.path / LOCK)
        self._sent: dict[Path, tuple[int, int]] = {}  # a file -> inode and time of what was sent

    def receive(self, files: Iterator[CellFile]) -> None:
        """Replace what cells go on from."""
        shutil.rmtree(self.path / IN_PROGRESS, ignore_errors=True)
        for file in files:
            file.write(self.path)
            self._is_new(self.path / file.path)

    def saved_states(self) -> Iterator[CellFile]:
        """The states that cells have saved since the last look."""
        for path in sorted(self.path.glob(f"{IN_PROGRESS}/*/{STATE}")):
            yield from self._read(path)

    def kept_parameters(self, cell: Cell) -> Iterator[CellFile]:
        """The parameters that a cell, which has ended, has written to be kept."""
        yield from self._read(self.path / CHECKPOINTS / f"{cell.id}.npz")

    def _read(self, path: Path) -> Iterator[CellFile]:
        """A file, if it is new; states are replaced as a whole, so it is complete."""
        with contextlib.suppress(OSError):  # removed: its cell has ended
            if self._is_new(path):
                size = path.stat().st_size
                content = path.read_bytes() if size <= MOST_BYTES else None
                yield CellFile(str(path.relative_to(self.path)), content, size)

    def _is_new(self, path: Path) -> bool:
        found = path.stat()
        before = self._sent.get(path)
        self._sent[path] = found.st_ino, found.st_mtime_ns
        return before != self._sent[path]


def files_for(run_dir: Path, cell: Cell, round_number: int, machine_kind: str) -> list[CellFile]:
    """What a cell goes on from in a round, on a machine of a kind."""
    path = folder_of(run_dir, cell, round_number, machine_kind) / STATE
    if not path.exists():
        return []
    content = read_bytes(path, 0)
    return [CellFile(str(path.relative_to(run_dir)), content, len(content))]


def forget_state(run_dir: Path, record: Record) -> None:
    """Remove what a cell would go on from, once its record is stored and that is its last word."""
    if record.outcome not in CAN_GO_ON:
        remove_folders_of(run_dir, record.cell, record.round)


def _remove_abandoned() -> None:
    """Remove the folders whose processes have ended without doing that."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError while it is in use
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
