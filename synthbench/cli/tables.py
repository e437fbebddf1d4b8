"""`synthbench tables`: make or check the tables of runs, from their records."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Results
from synthbench.cli.output import complain, console, say, write
from synthbench.cli.runs import find_run
from synthbench.errors import NotationError, ResultsError

if TYPE_CHECKING:
    from synthbench.report.data.table import Table
    from synthbench.store import Run


T = TypeVar("T")


class Format(StrEnum):
    """How tables can be printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


def tables(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="The folder of a run, suite/run, or a suite for its newest run. Default: all.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format", help="Print the tables in this format.", show_default="terminal for one RUN"
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; list the files that do not match the records."
        ),
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="Instead: the tables of the Synthesizer paper, compared with the runs here.",
        ),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE", help="With --paper: also write all of them to this page."
        ),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Make the tables of a run from its records: print them and write Markdown, CSV and LaTeX.

    The same records always give the same bytes. With --check, the exit code is 1 if a file is
    missing, differs, or does not belong to a table. Of several runs, one that cannot be read is
    named, the others are still done, and the exit code is 1.
    """
    from synthbench.store import list_runs

    if page is not None and not paper:
        raise NotationError("--page is the page of the paper's tables; add --paper")
    if paper:
        _paper(results, page, format or Format.TERMINAL)
        return
    runs = [find_run(run, results)] if run is not None else list_runs(results)
    if not runs:
        raise ResultsError(
            f"no run found in {results}; create one with `synthbench run --suite smoke`, or give "
            "another folder with --results"
        )
    if check:
        _check(runs, results if run is None else None)
    else:
        shown = format or (Format.TERMINAL if run is not None else None)
        done = _each(runs, lambda folder: _make(folder, shown))
        if len(done) < len(runs):
            raise typer.Exit(1)


def _each(runs: list[Path], do: Callable[[Path], T]) -> list[T]:
    """What `do` gives for each run; of several, those that cannot be read or written are named."""
    done: list[T] = []
    refused: list[ResultsError] = []
    for folder in runs:
        try:
            done.append(do(folder))
        except ResultsError as error:
            refused.append(error)
            if len(runs) > 1:
                complain(f"synthbench: {error}")
    if refused and len(runs) == 1:
        raise refused[0]
    return done


def _paper(results: Path, page: Path | None, shown: Format) -> None:
    from synthbench.report.paper.tables import paper_tables
    from synthbench.report.text.files import write_paper
    from synthbench.store import list_runs, read_run

    for folder in list_runs(results):
        try:
            read_run(folder)
        except ResultsError as error:
            complain(f"synthbench: {error}")
    _show(paper_tables(results), shown)
    written = write_paper(results, page)
    if shown is Format.TERMINAL:
        say(f"\nTables: {written}")


def _check(runs: list[Path], results: Path | None) -> None:
    from synthbench.report.text.files import check, check_paper

    checked = _each(runs, check)
    problems = [problem for found in checked for problem in found]
    of_paper = [] if results is None else check_paper(results)
    commands = ["`synthbench tables`"] * bool(problems)
    commands += ["`synthbench tables --paper`"] * bool(of_paper)
    for problem in (*problems, *of_paper):
        say(problem)
    if commands:
        complain(
            f"{len(problems) + len(of_paper)} files do not match the records; write them again "
            f"with {' and '.join(commands)}"
        )
    if refused := len(runs) - len(checked):
        complain(f"the tables of {refused} of {len(runs)} runs could not be checked")
    if commands or refused:
        raise typer.Exit(1)
    typer.echo(f"the tables of {len(runs)} run{'s' * (len(runs) > 1)} match the records")


def _make(folder: Path, shown: Format | None) -> None:
    from synthbench.report.text.files import write_tables
    from synthbench.store import read_run

    measured = read_run(folder)
    for damage in measured.damaged:
        complain(f"{folder}: {damage}; skipped")
    if shown is not None:
        _print(measured, shown)
    written = write_tables(measured)
    if shown in (None, Format.TERMINAL):
        say(f"\nTables: {written}" if shown else written)


def _print(measured: Run, shown: Format) -> None:
    from synthbench.report.tables.catalog import make_tables

    _show(make_tables(measured), shown)


def _show(made: list[Table], shown: Format) -> None:
    from synthbench.report.text.formats import FORMATS
    from synthbench.report.text.terminal import print_tables

    if shown is Format.TERMINAL:
        print_tables(console(), made)
    else:
        _, text_of = FORMATS[shown]
        write("\n".join(map(text_of, made)))
