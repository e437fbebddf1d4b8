"""`synthbench history`: the runs of a suite by commit, with changes marked."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.compare import Format
from synthbench.cli.completion import complete_measured_suite
from synthbench.cli.options import (
    FRAMEWORKS_ADVICE,
    Results,
    split_lengths,
    split_list,
    split_variants,
)
from synthbench.cli.output import complain, console, write
from synthbench.cli.runs import run_name
from synthbench.cli.shown import ShownFrameworks, ShownLengths, ShownVariants
from synthbench.errors import PackageMissingError, ResultsError, UnknownNameError

if TYPE_CHECKING:
    from synthbench.report.compare.side import Side

MISSING = PackageMissingError(
    "changes are not marked, because ruptures is not installed; pip install 'synthbench[history]'"
)


def history(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE", help="A suite that has runs.", autocompletion=complete_measured_suite
        ),
    ],
    variants: ShownVariants = [],  # noqa: B006  typer reads the default, nothing changes it
    framework: ShownFrameworks = [],  # noqa: B006
    seq_len: ShownLengths = [],  # noqa: B006
    format: Annotated[
        Format, typer.Option("--format", help="How to print the history.")
    ] = Format.TERMINAL,
    results: Results = Path("results"),
) -> None:
    """Show the runs of a suite by commit, one line per variant, and mark where times changed.

    Runs of each machine and device apart. Without --seq-len, of each variant the longest length of
    its newest run. Changes need four runs and ruptures (`pip install 'synthbench[history]'`).
    """
    from synthbench.analysis.change_points import change_points
    from synthbench.measure.environment import commit_dates
    from synthbench.report.data.context import named
    from synthbench.report.history.as_json import histories_json
    from synthbench.report.history.history import Chosen, commit_of, histories
    from synthbench.report.history.tables import history_tables
    from synthbench.report.text.markdown import markdown_section
    from synthbench.report.text.terminal import print_tables

    chosen = Chosen(
        tuple(map(named, split_variants(variants))),
        tuple(split_list(framework, FRAMEWORKS_ADVICE)),
        tuple(split_lengths(seq_len)),
    )
    sides = _sides(suite, results)
    can_mark = find_spec("ruptures") is not None
    commits = [commit for side in sides if (commit := commit_of(side.run.info))]
    found = histories(sides, commit_dates(commits), chosen, change_points if can_mark else None)
    if not any(side.cells for side in sides) and any(side.other_tasks for side in sides):
        raise ResultsError(
            f"the runs of {suite} have no cell of the task `cost`, and a history is one of times; "
            "what trainings have learned is in the table `quality` of each run"
        )
    found = [one for one in found if one.lines]
    if not found:
        raise ResultsError(
            f"no run of {suite} has measured such a cell; leave --variants, --framework or "
            "--seq-len out"
        )
    tables = [table for one in found for table in history_tables(one, marked=can_mark)]
    if format is Format.JSON:
        write(histories_json(found, marked=can_mark))
    elif format is Format.MARKDOWN:
        write("\n".join(map(markdown_section, tables)))
    else:
        print_tables(console(), tables)
    if not can_mark:
        complain(f"synthbench: {MISSING}")


def _sides(suite: str, results: Path) -> list[Side]:
    """The runs of a suite; one that cannot be read is named and left out."""
    from synthbench.report.compare.side import Side
    from synthbench.store import list_runs, read_info, read_run

    sides: list[Side] = []
    known: set[str] = set()
    for folder in list_runs(results):
        try:
            found = read_info(folder).suite
            known.add(found)
            if found == suite:
                sides.append(Side("", run_name(folder, results), read_run(folder)))
        except ResultsError as error:
            complain(f"synthbench: {error}")
    if not sides:
        raise UnknownNameError("suite with runs", suite, known)
    return sides
