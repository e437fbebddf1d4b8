"""`synthbench tables`: make the tables of runs from their records again, or check them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.options import Results
from synthbench.cli.output import complain, console
from synthbench.cli.runs import find_run
from synthbench.errors import ResultsError

if TYPE_CHECKING:
    from synthbench.report.data.table import Table
    from synthbench.store import Run


class Format(StrEnum):
    """How tables are printed."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"


def tables(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run's folder, suite/run, or a suite for its newest run. All runs without it.",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", help="Print the tables so.", show_default="terminal for one RUN"),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; list each file that differs from what the records give."
        ),
    ] = False,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="The Synthesizer paper's tables, ours beside theirs."),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="With --paper, all of them on this page too."),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Make every table of a run from its records: printed, and as Markdown, CSV and LaTeX files.

    The same records give the same files, byte for byte. With --check, exit code 1 says that a
    file is missing, differs, or belongs to no table.
    """
    from synthbench.store import list_runs

    if paper:
        _paper(results, page, format or Format.TERMINAL)
        return
    runs = [find_run(run, results)] if run is not None else list_runs(results)
    if not runs:
        raise ResultsError(
            f"there is no run below {results}; make one with synthbench run --suite smoke, "
            "or name their folder with --results"
        )
    if check:
        _check(runs, results if run is None else None)
    else:
        shown = format or (Format.TERMINAL if run is not None else None)
        for folder in runs:
            _make(folder, shown)


def _paper(results: Path, page: Path | None, shown: Format) -> None:
    from synthbench.report.paper.tables import paper_tables
    from synthbench.report.text.files import write_paper

    _show(paper_tables(results), shown)
    written = write_paper(results, page)
    if shown is Format.TERMINAL:
        typer.echo(f"\nTables: {written}")


def _check(runs: list[Path], results: Path | None) -> None:
    from synthbench.report.text.files import check, check_paper

    problems = [problem for folder in runs for problem in check(folder)]
    if results is not None:
        problems += check_paper(results)
    for problem in problems:
        typer.echo(problem)
    if problems:
        complain(f"{len(problems)} files differ; `synthbench tables` makes them again")
        raise typer.Exit(1)
    typer.echo(f"tables of {len(runs)} run{'s' * (len(runs) > 1)} are what the records give")


def _make(folder: Path, shown: Format | None) -> None:
    from synthbench.report.text.files import write_tables
    from synthbench.store import read_run

    measured = read_run(folder)
    for damage in measured.damaged:
        complain(f"{folder}: {damage}; left out")
    if shown is not None:
        _print(measured, shown)
    written = write_tables(measured)
    if shown in (None, Format.TERMINAL):
        typer.echo(f"\nTables: {written}" if shown else str(written))


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
        typer.echo("\n".join(map(text_of, made)), nl=False)
