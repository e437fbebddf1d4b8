"""What a condition is, and the runs that its checks start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.forked import Command, start
from benchmarks.faults.judge import judge_end
from benchmarks.faults.processes import MARKER, patience
from benchmarks.kill_resume import PLUGIN, judge_run, tiny_plan, tiny_suite

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 90.0  # of a run, at most, on an idle machine
ROUNDS = 2


class SkippedError(Exception):
    """The condition cannot be made on this machine; the text says why."""


@dataclass(frozen=True)
class Condition:
    """One condition; `check` gets an empty folder and returns what is wrong and what was printed.

    It raises SkippedError where the condition cannot be made.
    """

    kind: str
    name: str
    check: Callable[[Path], tuple[list[str], str]]


def token_of(folder: Path) -> str:
    """The marker of the processes that a check starts in its folder or below."""
    return f"conditions-{folder}"


def start_run(
    folder: Path,
    name: str = "run",
    *,
    rounds: int = ROUNDS,
    more: Sequence[str] = (),
    environment: Mapping[str, str | None] | None = None,
    prepare: Callable[[list[str]], object] | None = None,
    results: Path | None = None,
) -> Command:
    """Start the tiny run into `results/name`, by default `folder/name`.

    `prepare` runs in its process before the command, with the arguments.
    """
    (folder / "tiny.yaml").write_text(tiny_suite(rounds))
    arguments = ["run", "--suite", "tiny.yaml", "--device", "cpu", "--plugin", PLUGIN]
    arguments += ["--out", str((results or folder) / name), *more]
    number = len(list(folder.glob("streams-*")))
    return start(
        arguments,
        folder,
        folder / f"streams-{number}",
        environment={MARKER: token_of(folder), **(environment or {})},
        prepare=None if prepare is None else lambda: prepare(arguments),
    )


def wait(command: Command, codes: Sequence[int] = (0,)) -> list[str]:
    """Wait until a run ends; what is wrong with how it did."""
    code = command.wait(patience(SECONDS))
    if code is None:
        command.kill()
    return judge_end(code, codes, command.text("err") + command.text("out"))


def judge_finished(run_dir: Path, rounds: int = ROUNDS) -> list[str]:
    """What is wrong with a tiny run that must be finished and complete."""
    cells = tiny_plan(rounds).cells
    return judge_run(run_dir, {(cell.id, number) for number in range(rounds) for cell in cells})


def judge_message(command: Command, *parts: str, most_lines: int = 6) -> list[str]:
    """What is wrong with the last line on standard error: it must contain one of the parts."""
    lines = [line for line in command.text("err").splitlines() if line.strip()]
    if not lines:
        return ["no message"]
    problems = []
    if not any(part in line for part in parts for line in lines):
        problems.append(f"no message says {' or '.join(map(repr, parts))}")
    own = [line for line in lines if not line.startswith(("[", "suite "))]
    if len(own) > most_lines:
        problems.append(f"a message of {len(own)} lines")
    return problems


def interpreter(
    arguments: Sequence[str], folder: Path, *, shell: str = '"$@"', **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """`python -P -m synthbench ARGUMENTS` in a fresh interpreter; `shell` may redirect "$@"."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), MARKER: token_of(folder)}
    for name, value in variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return subprocess.run(
        ["bash", "-c", shell, "bash", sys.executable, "-P", "-m", "synthbench", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, errors="replace",
        timeout=patience(SECONDS), check=False,
    )  # fmt: skip
