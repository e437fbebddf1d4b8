"""No space on the disk: what is stored stays whole, and the run can be resumed with more space."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults.conditions.condition import (
    SkippedError,
    judge_finished,
    judge_message,
    start_run,
    wait,
)
from benchmarks.faults.judge import complete_lines, judge_records

ROUNDS = 5  # of four cells: more than fits
FULL = ("No space left", "File too large")


def disk_full(folder: Path) -> tuple[list[str], str]:
    """A disk that has space for the first records only, and later for all."""
    with _small_disk(folder, "40k") as disk:
        command = start_run(folder, rounds=ROUNDS, results=disk)
        problems = wait(command, (2,)) + judge_message(command, *FULL)
        before = complete_lines(disk / "run")
        if not before:
            problems.append("no record was stored before the disk was full")
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        again = start_run(folder, rounds=ROUNDS, results=disk, more=["--resume"])
        problems += wait(again)
        problems += judge_records(before, complete_lines(disk / "run"))
        problems += judge_finished(disk / "run", ROUNDS)
    return problems, command.text("err") + again.text("err")


def no_space_at_all(folder: Path) -> tuple[list[str], str]:
    """A disk on which not even run.json can be written."""
    with _small_disk(folder, "4k") as disk:
        command = start_run(folder, rounds=1, results=disk)
        problems = wait(command, (2,)) + judge_message(command, *FULL)
    return problems, command.text("err")


def file_size_limit(folder: Path) -> tuple[list[str], str]:
    """No file may be larger than a few records, as with `ulimit -f`; then the limit is lifted."""
    most = 12 * 1024
    command = start_run(
        folder,
        rounds=ROUNDS,
        prepare=lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
    )
    problems = wait(command, (2,)) + judge_message(command, *FULL)
    before = complete_lines(folder / "run")
    again = start_run(folder, rounds=ROUNDS, more=["--resume"])
    problems += wait(again)
    problems += judge_records(before, complete_lines(folder / "run"))
    problems += judge_finished(folder / "run", ROUNDS)
    return problems, command.text("err") + again.text("err")


@contextlib.contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system in memory of this size; raises SkippedError where it may not be mounted."""
    disk = folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if os.geteuid() != 0:
        raise SkippedError("only root may mount a small disk")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SkippedError(f"a small disk cannot be mounted: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
