"""Users with few rights: another user than root, a HOME that cannot be written, and none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.faults.conditions.condition import (
    ROOT,
    SkippedError,
    judge_finished,
    start_run,
    wait,
)

NOBODY = 65534


def become_nobody() -> None:
    """Give up root's rights; nothing to do for another user."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def let_nobody_write(folder: Path) -> None:
    """Give a folder to the user without rights; raises SkippedError if it cannot be reached."""
    if os.geteuid() != 0:
        return
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import os, numpy, synthbench; os.listdir({str(folder)!r})"],
        env={"PYTHONPATH": str(ROOT), "PATH": os.defpath}, cwd="/", user=NOBODY, group=NOBODY,
        extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SkippedError("another user cannot read this checkout, its packages or this folder")


def non_root(folder: Path) -> tuple[list[str], str]:
    """A run of a user who is not root."""
    return _run_as_nobody(folder, {"HOME": str(folder)})


def read_only_home(folder: Path) -> tuple[list[str], str]:
    """A run of a user whose HOME cannot be written."""
    home = folder / "home"
    home.mkdir()
    home.chmod(0o500)
    return _run_as_nobody(folder, {"HOME": str(home), "XDG_CACHE_HOME": None})


def unset_home(folder: Path) -> tuple[list[str], str]:
    """A run without HOME and USER."""
    names = ("HOME", "USER", "LOGNAME", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR")
    return _run_as_nobody(folder, dict.fromkeys(names))


def _run_as_nobody(folder: Path, environment: dict[str, str | None]) -> tuple[list[str], str]:
    let_nobody_write(folder)
    command = start_run(folder, environment=environment, prepare=become_nobody)
    problems = wait(command)
    return problems + judge_finished(folder / "run"), command.text("err")
