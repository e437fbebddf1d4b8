"""Try every wrong input, each in a folder and a forked process of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.faults.case import Case, changed_files, fingerprint, remove, write_files
from benchmarks.faults.finding import Report
from benchmarks.faults.forked import call, preload
from benchmarks.faults.judge import judge_input
from benchmarks.faults.processes import MARKER, left_behind, patience

GROUP = "inputs"
SECONDS = 30.0  # of a command, at most, on an idle machine


def try_inputs(
    cases: Sequence[Case],
    folder: Path,
    report: Report,
    seed: int = 0,
    advance: Callable[[str], None] = lambda case: None,
) -> None:
    """Try the cases in a random order; adds what is wrong to the report."""
    preload()
    for number, case in enumerate(random.Random(seed).sample(list(cases), len(cases))):
        advance(case.title)
        problems, output = try_input(case, folder / str(number))
        report.add(GROUP, case.kind, case.title, problems, output)


def try_input(case: Case, folder: Path) -> tuple[list[str], str]:
    """What is wrong with how one input was handled, and what was printed."""
    token = f"inputs-{folder}"
    work, streams = folder / "work", folder / "streams"
    work.mkdir(parents=True)
    try:
        write_files(case.files, work)
        before = fingerprint(work)
        environment = {**case.environment, MARKER: token}
        limit = patience(SECONDS)
        ended = call(list(case.arguments), work, streams, environment=environment, seconds=limit)
        problems = judge_input(case, ended, changed_files(before, fingerprint(work)))
        if behind := left_behind(token):
            problems.append(f"processes left behind: {behind}")
    finally:
        remove(folder)
    return problems, ended.err + ended.out
