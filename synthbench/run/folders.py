"""Folders in a run: what killed cells go on from, and parameters that are kept."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from synthbench.record import Outcome
from synthbench.suites.cell import Cell

IN_PROGRESS = "in-progress"
CHECKPOINTS = "checkpoints"

# Outcomes after which the same cell, measured again, goes on from what its process left.
CAN_GO_ON: tuple[Outcome, ...] = ("crashed", "timeout", "oom")


def folder_of(run_dir: Path, cell: Cell, round_number: int) -> Path:
    """Where a cell keeps what it goes on from in a round: rounds may be measured side by side."""
    return run_dir / IN_PROGRESS / f"{cell.id}.{round_number}"


def remove_folder_of(run_dir: Path, cell: Cell, round_number: int) -> None:
    """Remove the folder of a cell in a round, and the one around it once it is empty."""
    shutil.rmtree(folder_of(run_dir, cell, round_number), ignore_errors=True)
    with contextlib.suppress(OSError):
        (run_dir / IN_PROGRESS).rmdir()
