"""Check every condition, each in a folder of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.faults.case import remove
from benchmarks.faults.conditions.condition import Condition, SkippedError, token_of
from benchmarks.faults.finding import Report
from benchmarks.faults.forked import preload
from benchmarks.faults.kills.session import HangError
from benchmarks.faults.processes import end, left_behind, marked
from benchmarks.kill_resume import PLUGIN
from synthbench.errors import SynthbenchError
from synthbench.run.extensions import load_plugin

GROUP = "conditions"


def try_conditions(
    conditions: Sequence[Condition],
    folder: Path,
    report: Report,
    advance: Callable[[str], None] = lambda case: None,
) -> None:
    """Check the conditions; adds what is wrong, or why one cannot be made, to the report."""
    preload()
    load_plugin(PLUGIN)
    for number, condition in enumerate(conditions):
        advance(condition.name)
        own = folder / str(number)
        own.mkdir(parents=True)
        folder.chmod(0o755)  # for the conditions of another user
        try:
            problems, printed = condition.check(own)
            if behind := left_behind(token_of(own)):
                problems.append(f"processes left behind: {behind}")
        except SkippedError as skipped:
            report.skip(GROUP, condition.kind, condition.name, str(skipped))
        except (HangError, SynthbenchError, OSError, subprocess.SubprocessError) as error:
            report.add(GROUP, condition.kind, condition.name, [f"{type(error).__name__}: {error}"])
        else:
            report.add(GROUP, condition.kind, condition.name, problems, printed)
        finally:
            end(marked(token_of(own)))
            remove(own)
