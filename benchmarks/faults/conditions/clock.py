"""A clock that goes backwards, as when it is set while a run is measured."""

from __future__ import annotations

import itertools
from pathlib import Path

from benchmarks.faults.conditions.condition import ROUNDS, judge_finished, start_run, wait
from benchmarks.faults.conditions.patches import CLOCK, patch_this_process, write_plugin
from benchmarks.faults.forked import call
from benchmarks.faults.judge import judge_end
from synthbench.store import read_run


def backwards_clock(folder: Path) -> tuple[list[str], str]:
    """Durations stay right, and the run can be resumed, listed and shown."""
    options = write_plugin(folder, CLOCK)

    def patch(_: list[str]) -> None:
        patch_this_process(folder)

    command = start_run(folder, more=options, prepare=patch)
    problems = wait(command) + judge_finished(folder / "run")
    printed = command.text("err")
    begun = [record.started for record in read_run(folder / "run").records]
    if not all(later < earlier for earlier, later in itertools.pairwise(begun)):
        problems.append("the clock did not go backwards, so nothing was checked")
    for record in read_run(folder / "run").records:
        if not 0 <= record.wall_seconds < 3600:
            problems.append(f"a cell took {record.wall_seconds} s")
    more = [*options, "--resume", "--allow-changed"]
    again = start_run(folder, more=more, rounds=ROUNDS + 1, prepare=patch)
    problems += wait(again) + judge_finished(folder / "run", ROUNDS + 1)
    for number, arguments in enumerate((["tables", "run"], ["list", "runs", "--results", "."])):
        ended = call(arguments, folder, folder / f"show-{number}")
        problems += judge_end(ended.code, (0,), ended.err + ended.out)
        printed += ended.err
    return problems, printed + again.text("err")
