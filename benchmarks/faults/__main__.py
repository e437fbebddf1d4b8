"""Try wrong inputs, kills and bad conditions; report everything that is not handled.

    python -m benchmarks.faults [--only inputs|kills|conditions] [--seed N] [--out FILE]

Each problem is one line of JSON, in FILE or on standard output. Exit code 1: there is a problem.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from benchmarks.faults.conditions import CONDITIONS
from benchmarks.faults.conditions.try_conditions import try_conditions
from benchmarks.faults.finding import GROUPS, Report
from benchmarks.faults.inputs import CASES
from benchmarks.faults.kills.plan import make_kills
from benchmarks.faults.kills.try_kills import try_kills
from benchmarks.faults.try_inputs import try_inputs

KILLS = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, try everything, print the summary; the exit code."""
    options = _options(arguments)
    groups = GROUPS if options.only is None else (options.only,)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleaned up
    console = Console(stderr=True)
    amounts = {"inputs": len(CASES), "kills": options.kills, "conditions": len(CONDITIONS)}
    # Without a thread of its own: this process is forked again and again.
    with (
        _opened(options.out) as out,
        tempfile.TemporaryDirectory(prefix="synthbench-faults-") as name,
        Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[case]}", markup=False),
            console=console, auto_refresh=False,
        ) as progress,
    ):  # fmt: skip
        folder, report = Path(name), Report(out=out)
        for group in groups:
            advance = _advance(progress, group, amounts[group])
            if group == "inputs":
                try_inputs(CASES, folder / group, report, options.seed, advance)
            elif group == "kills":
                kills = make_kills(options.kills, options.seed)
                try_kills(kills, folder / group, report, advance)
            else:
                try_conditions(CONDITIONS, folder / group, report, advance)
    console.print(summary(report))
    for reason in report.skipped:
        console.print(Text(f"skipped: {reason}"))
    return 1 if report.findings else 0


def summary(report: Report) -> Table:
    """One row per group and kind: how many cases were tried, skipped, and found to be wrong."""
    table = Table("group", "kind", title="Faults")
    for heading in ("tried", "skipped", "problems"):
        table.add_column(heading, justify="right")
    for (group, kind), count in report.counts.items():
        table.add_row(group, kind, str(count.tried), str(count.skipped), str(count.problems))
    totals = [
        str(sum(getattr(count, name) for count in report.counts.values()))
        for name in ("tried", "skipped", "problems")
    ]
    table.add_section()
    table.add_row("all", "", *totals)
    return table


def _advance(progress: Progress, group: str, total: int) -> Callable[[str], None]:
    task = progress.add_task(group, total=total, case="")
    begun = False

    def advance(case: str) -> None:
        nonlocal begun
        shown = case if len(case) <= 50 else case[:47] + "..."
        progress.update(task, advance=int(begun), case=shown.encode("ascii", "replace").decode())
        begun = True
        progress.refresh()

    return advance


def _opened(path: Path | None) -> contextlib.AbstractContextManager[TextIO]:
    return contextlib.nullcontext(sys.stdout) if path is None else path.open("w", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", choices=GROUPS, help="try only this group")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the moments")
    parser.add_argument("--kills", type=int, default=KILLS, help="how many kills")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the problems are written")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
