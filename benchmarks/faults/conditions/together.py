"""Two runs at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from benchmarks.faults.conditions.condition import judge_finished, judge_message, start_run, wait
from benchmarks.faults.forked import Command
from benchmarks.faults.judge import complete_lines
from benchmarks.faults.kills.session import wait_for

ROUNDS = 3


def second_while_running(folder: Path) -> tuple[list[str], str]:
    """The second is refused, with --resume and without; the first is not disturbed."""
    first = start_run(folder, rounds=ROUNDS)
    wait_for(lambda: bool(complete_lines(folder / "run")), [first])
    os.kill(first.pid, signal.SIGSTOP)  # so that it is not finished before the others have begun
    others = [
        start_run(folder, rounds=ROUNDS, more=["--resume"]),
        start_run(folder, rounds=ROUNDS),
    ]
    problems = [problem for other in others for problem in wait(other, (2,))]
    problems += judge_message(others[0], "another synthbench is writing")
    problems += judge_message(others[1], "is not empty")
    os.kill(first.pid, signal.SIGCONT)
    problems += wait(first) + judge_finished(folder / "run", ROUNDS)
    return problems, _printed(first, *others)


def both_begin_at_once(folder: Path) -> tuple[list[str], str]:
    """One of them has the folder, the other is refused."""
    commands = [start_run(folder, rounds=ROUNDS) for _ in range(2)]
    problems = [problem for command in commands for problem in wait(command, (0, 2))]
    codes = sorted(str(command.code) for command in commands)
    if codes != ["0", "2"]:
        problems.append(f"exit codes {' and '.join(codes)} instead of 0 and 2")
    refused = next((c for c in commands if c.code == 2), commands[0])
    problems += judge_message(refused, "another synthbench is writing", "is not empty")
    problems += judge_finished(folder / "run", ROUNDS)
    return problems, _printed(*commands)


def different_folders(folder: Path) -> tuple[list[str], str]:
    """Both finish."""
    commands = [start_run(folder, name) for name in ("one", "two")]
    problems = [problem for command in commands for problem in wait(command)]
    for name in ("one", "two"):
        problems += judge_finished(folder / name)
    return problems, _printed(*commands)


def _printed(*commands: Command) -> str:
    return "".join(command.text("err") for command in commands)
