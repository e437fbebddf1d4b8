"""Folders that cannot be written, or disappear in the middle of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.faults.conditions.condition import judge_finished, judge_message, start_run, wait
from benchmarks.faults.conditions.users import become_nobody, let_nobody_write
from benchmarks.faults.judge import complete_lines, judge_records
from benchmarks.faults.kills.session import wait_for

ROUNDS = 5


def read_only_results(folder: Path) -> tuple[list[str], str]:
    """The run is refused with the name of the folder."""
    results = folder / "results"
    results.mkdir()
    let_nobody_write(folder)
    results.chmod(0o555)
    command = start_run(folder, results=results, prepare=become_nobody)
    problems = wait(command, (2,)) + judge_message(command, "Permission denied")
    results.chmod(0o755)
    return problems, command.text("err")


def removed_folder(folder: Path) -> tuple[list[str], str]:
    """The run ends with a message, since nothing can be stored."""
    run = folder / "run"
    command = start_run(folder, rounds=ROUNDS)
    wait_for(lambda: bool(complete_lines(run)), [command])
    shutil.rmtree(run)
    return wait(command, (2,)) + judge_message(command, str(run)), command.text("err")


def removed_records(folder: Path) -> tuple[list[str], str]:
    """The run goes on; what was removed is measured again by --resume, and nothing twice."""
    run = folder / "run"
    command = start_run(folder, rounds=ROUNDS)
    wait_for(lambda: bool(complete_lines(run)), [command])
    (run / "records.jsonl").unlink()
    problems = wait(command, (0, 2))
    before = complete_lines(run)
    again = start_run(folder, rounds=ROUNDS, more=["--resume"])
    problems += wait(again) + judge_records(before, complete_lines(run))
    problems += judge_finished(run, ROUNDS)
    return problems, command.text("err") + again.text("err")
