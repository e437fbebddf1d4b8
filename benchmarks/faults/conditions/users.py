"""Users with few rights: another user than root, a HOME that cannot be written, and none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from benchmarks.faults.conditions.condition import (
    ROOT,
    SkippedError,
    judge_finished,
    start_run,
    wait,
)

NOBODY = "65534"
# It may read everything, so that it finds this interpreter and this checkout, and write nothing.
SETPRIV = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)  # fmt: skip


def become_nobody(arguments: list[str]) -> None:
    """Replace this process by the same command of a user without rights; root only."""
    if os.geteuid() == 0:
        os.environ["PYTHONPATH"] = str(ROOT)
        os.execvp("setpriv", [*SETPRIV, sys.executable, "-P", "-m", "synthbench", *arguments])


def let_nobody_write(folder: Path) -> None:
    """Give a folder to the user without rights; raises SkippedError if one cannot become it."""
    if os.geteuid() != 0:
        return
    if shutil.which("setpriv") is None:
        raise SkippedError("there is no setpriv here, which starts a process of another user")
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, int(NOBODY), int(NOBODY))


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
    if problems:
        return problems, command.text("err")
    if os.geteuid() == 0 and (folder / "run" / "run.json").stat().st_uid != int(NOBODY):
        problems.append("the run was not one of another user, so nothing was checked")
    return problems + judge_finished(folder / "run"), command.text("err")
