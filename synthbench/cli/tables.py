"""`synthbench tables`: make or check the tables of runs, from their records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Results
from synthbench.cli.output import complain, require_folder_of, say
from synthbench.cli.runs import find_run
from synthbench.cli.shown import (
    AllOption,
    Format,
    Shown,
    ShownFrameworks,
    ShownLengths,
    ShownModes,
    ShownVariants,
    SortOption,
    TableOption,
    print_as,
)
from synthbench.errors import NotationError, ResultsError

T = TypeVar("T")


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
    table: TableOption = [],  # noqa: B006  typer reads the default, nothing changes it
    every_table: AllOption = False,
    variants: ShownVariants = [],  # noqa: B006
    framework: ShownFrameworks = [],  # noqa: B006
    mode: ShownModes = [],  # noqa: B006
    seq_len: ShownLengths = [],  # noqa: B006
    sort: SortOption = None,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="Print in this format; in the others than terminal every table, or --table.",
            show_default="terminal for one RUN",
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
    """Make the tables of a run from its records: print one screen, write Markdown, CSV and LaTeX.

    The screen says which variant is the fastest at each length, and how sure that is. --table and
    --all print tables instead; --variants, --framework, --mode and --seq-len choose rows. What is
    written, and every verdict, is the same whatever is printed, byte for byte.

    With --check, the exit code is 1 if a file is missing, differs, or does not belong to a table.
    Of several runs, one that cannot be read is named, the others are still done, and the exit code
    is 1.
    """
    from synthbench.store import list_runs

    if page is not None and not paper:
        raise NotationError("--page is the page of the paper's tables; add --paper")
    if page is not None:
        require_folder_of(page, "--page")
    shown = Shown.of(table, every_table, variants, framework, mode, seq_len, sort)
    if shown != Shown() and (run is None or check or paper):
        raise NotationError(
            "--table, --all, --variants, --framework, --mode, --seq-len and --sort choose what is "
            "printed of one run; name the run, and leave --check and --paper out"
        )
    if paper and run is not None:
        raise NotationError(
            f"--paper makes the paper's tables, of all runs in {results}; leave {run} out, or "
            "leave --paper out for the tables of that run"
        )
    if paper and check:
        raise NotationError(
            "--paper writes, and --check writes nothing; leave --paper out: --check without a run "
            "also checks the paper's tables"
        )
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
        wanted = format or (Format.TERMINAL if run is not None else None)
        done = _each(runs, lambda folder: _make(folder, shown, wanted))
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
    print_as(paper_tables(results), shown)
    written = write_paper(results, page)
    if shown is Format.TERMINAL:
        say(f"\nTables: {written}")


def _check(runs: list[Path], results: Path | None) -> None:
    """Check the tables of runs; `results`: the folder of which these are all, with its paper's."""
    from synthbench.report.text.files import check, check_paper

    if results is not None:
        waiting = [run for run in runs if _awaits_tables(run)]
        for folder in waiting:
            complain(f"{folder} is unfinished and has no tables yet; not checked")
        runs = [run for run in runs if run not in waiting]
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
    typer.echo(f"the tables of {len(runs)} run{'s' * (len(runs) != 1)} match the records")


def _awaits_tables(folder: Path) -> bool:
    """Whether a run was interrupted before its first tables, as Ctrl-C leaves it."""
    from synthbench.report.text.files import FOLDER
    from synthbench.store import read_info

    if (folder / FOLDER).exists():
        return False
    try:
        return read_info(folder).finished is None
    except ResultsError:  # the check says what is wrong with it
        return False


def _make(folder: Path, shown: Shown, format: Format | None) -> None:
    from synthbench.report.data.columns import read_for_tables
    from synthbench.report.data.prepared import prepare
    from synthbench.report.text.files import write_tables
    from synthbench.store import without_garbage_collection

    with without_garbage_collection():
        measured = read_for_tables(folder)
        for damage in measured.damaged:
            complain(f"{folder}: {damage}; skipped")
        if format is None:
            say(write_tables(measured))
            return
        prepared = prepare(measured)
        is_screen = shown.print_prepared(prepared, format, footer=1)
        written = write_tables(measured, prepared)
    if format is Format.TERMINAL:
        say(f"Tables: {written}" if is_screen else f"\nTables: {written}")
