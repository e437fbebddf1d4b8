"""Folders in a run: what killed cells go on from, and parameters that are kept."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from pathlib import Path

from synthbench.record import Outcome
from synthbench.suites.cell import Cell

IN_PROGRESS = "in-progress"
CHECKPOINTS = "checkpoints"

# Outcomes after which the same cell, measured again, goes on from what its process left.
CAN_GO_ON: tuple[Outcome, ...] = ("crashed", "timeout", "oom")


def folder_of(run_dir: Path, cell: Cell, round_number: int, machine_kind: str) -> Path:
    """Where a cell keeps what it goes on from in a round, on machines of a kind.

    Rounds may be measured side by side. A training adds up its seconds, and those of two kinds of
    machines mean nothing together.
    """
    kind = hashlib.sha256(machine_kind.encode()).hexdigest()[:8]
    return run_dir / IN_PROGRESS / f"{cell.id}.{round_number}.{kind}"


def remove_folders_of(run_dir: Path, cell: Cell, round_number: int) -> None:
    """Remove the folders of a cell in a round, and the one around them once it is empty."""
    for folder in (run_dir / IN_PROGRESS).glob(f"{cell.id}.{round_number}.*"):
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        (run_dir / IN_PROGRESS).rmdir()
