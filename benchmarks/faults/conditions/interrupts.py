"""Ctrl-C while the interpreter and the commands are still being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.faults.conditions.condition import ROOT, token_of
from benchmarks.faults.judge import TRACEBACK
from benchmarks.faults.processes import MARKER

MOMENTS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.2)  # seconds after the start
OURS = str(ROOT / "synthbench")


def ctrl_c_while_starting(folder: Path) -> tuple[list[str], str]:
    """No traceback from the project's code; before it is reached, the interpreter may print one."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), MARKER: token_of(folder)}
    problems, printed = [], ""
    for moment in MOMENTS:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "synthbench", "list", "variants"],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        time.sleep(moment)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            problems.append(f"after {moment} s: it hangs")
            continue
        if TRACEBACK in err and OURS in err:
            problems.append(f"after {moment} s: a traceback")
            printed += err
    return problems, printed
