"""`synthbench compare`: what differs between runs, and a gate for CI."""

from __future__ import annotations

import string
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Results
from synthbench.cli.output import complain, console, say, write
from synthbench.cli.runs import find_run, run_name
from synthbench.errors import NotationError, ResultsError

if TYPE_CHECKING:
    from synthbench.report.compare.comparison import RunComparison
    from synthbench.report.compare.gate import Violation
    from synthbench.report.compare.side import Side

MOST_NAMED = 10  # cells in the message of a gate
LETTERS = string.ascii_uppercase


class Format(StrEnum):
    """How a comparison can be printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Two runs or more, each the folder of a run, suite/run, or a suite for its newest "
            "run. Each is compared with the first.",
            autocompletion=complete_run,
        ),
    ],
    fail_on: Annotated[
        list[str],
        typer.Option(
            "--fail-on",
            metavar='"slower 5%"',
            help='Exit 1 if a cell meets this: "slower 5%", "faster 5%", "memory +10%", "failed", '
            '"contradiction", "any"; several by comma. Repeatable.',
            show_default=False,
        ),
    ] = [],  # noqa: B006  typer reads the default, nothing changes it
    format: Annotated[
        Format, typer.Option("--format", help="How to print the comparison.")
    ] = Format.TERMINAL,
    every: Annotated[
        bool, typer.Option("--all", help="Print every cell, not only those that changed.")
    ] = False,
    results: Results = Path("results"),
) -> None:
    """Compare runs of two days, commits, machines or devices, cell by cell.

    First what changed in the environment. On the same machine: times and memory, with a verdict on
    each. In any case: whether the conclusions about the baseline agree, and crossings that moved.
    Exit code 1: a condition of --fail-on is met.
    """
    from synthbench.report.compare.as_json import comparisons_json
    from synthbench.report.compare.comparison import compare_runs
    from synthbench.report.compare.gate import hidden_by_margin, parse_conditions, violations
    from synthbench.report.compare.text import comparisons_markdown

    conditions = parse_conditions(fail_on)
    first, *others = _sides(runs, results)
    compared = [compare_runs(first, other) for other in others]
    found: list[Violation] = []
    refused: ResultsError | None = None
    for comparison in compared:
        try:
            found += violations(comparison, conditions)
        except ResultsError as error:  # the comparisons are printed first, and others may fail
            refused = refused or error
    if format is Format.JSON:
        write(comparisons_json(compared, found))
    elif format is Format.MARKDOWN:
        write(comparisons_markdown(compared, every=every))
    else:
        _print(compared, every)
    for comparison in compared:
        for remark in hidden_by_margin(comparison, conditions):
            complain(remark)
    for violation in found:
        complain(_message(violation))
    if found:
        raise typer.Exit(1)
    if refused is not None:
        raise refused


def _sides(runs: Sequence[str], results: Path) -> list[Side]:
    """Every run, read; damage is reported."""
    from synthbench.report.compare.side import Side
    from synthbench.store import read_run

    if not 2 <= len(runs) <= len(LETTERS):
        raise NotationError(
            f"{len(runs)} run{'s' * (len(runs) != 1)} cannot be compared; give 2 to "
            f"{len(LETTERS)}, as in `synthbench compare seq_scaling/before seq_scaling/after`"
        )
    folders = [find_run(text, results) for text in runs]
    for number, folder in enumerate(folders):
        if any(folder.samefile(earlier) for earlier in folders[:number]):
            name = run_name(folder, results)
            raise NotationError(f"{name} is given twice; give runs that differ")
    sides = []
    for letter, folder in zip(LETTERS, folders, strict=False):
        measured = read_run(folder)
        for damage in measured.damaged:
            complain(f"{folder}: {damage}; skipped")
        sides.append(Side(letter, run_name(folder, results), measured))
    return sides


def _print(compared: Sequence[RunComparison], every: bool) -> None:
    from rich.text import Text

    from synthbench.report.compare.headline import headline
    from synthbench.report.compare.tables import comparison_tables
    from synthbench.report.compare.text import title_of
    from synthbench.report.text.terminal import print_tables

    out = console()
    for one in compared:
        out.print(Text(title_of(one), "bold"))
        for line in headline(one):
            say(line)
        say("")
        print_tables(out, comparison_tables(one, every=every))


def _message(violation: Violation) -> str:
    cells = violation.found
    more = len(cells) - MOST_NAMED
    named = "; ".join(cells[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return f"--fail-on {violation.condition.text}: {len(cells)} in {violation.letter}: {named}"
