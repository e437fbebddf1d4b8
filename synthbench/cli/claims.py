"""`synthbench claims`: whether what the paper says holds in our runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.compare import Format
from synthbench.cli.completion import complete_run
from synthbench.cli.options import Results
from synthbench.cli.output import complain, console, require_folder_of, say, write
from synthbench.cli.runs import find_run
from synthbench.errors import NotationError, ResultsError

if TYPE_CHECKING:
    from synthbench.store import Run


def claims(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs, each a folder, suite/run, or a suite for its newest run. Default: every "
            "finished run.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", help="How to print the answers.")
    ] = Format.TERMINAL,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write to this file instead, as Markdown or JSON."
        ),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Check what the Synthesizer paper says against the records of runs.

    Each claim holds, does not hold, is undecided or is not measured, in each framework, with our
    figure, its interval, the run, and how its setting differs from the paper's.
    """
    from synthbench.report.paper.check.as_json import claims_json
    from synthbench.report.paper.check.check import check_claims
    from synthbench.report.paper.check.page import claims_page, claims_tables
    from synthbench.report.paper.claims import read_claims
    from synthbench.report.text.terminal import print_tables

    if out is not None and format is Format.TERMINAL:
        raise NotationError("--out writes a file; add --format markdown or --format json")
    if out is not None:
        require_folder_of(out)
    checked = check_claims(read_claims(), _runs(runs or [], results))
    if format is Format.TERMINAL:
        print_tables(console(), claims_tables(checked))
        return
    text = claims_json(checked) if format is Format.JSON else claims_page(checked)
    if out is None:
        write(text)
        return
    try:
        out.write_bytes(text.encode())
    except OSError as error:
        raise ResultsError(f"cannot write {out}: {error.strerror or error}") from error
    say(f"Claims: {out}")


def _runs(names: Sequence[str], results: Path) -> list[Run]:
    """The named runs, or every finished one; of these one that cannot be read is left out."""
    from synthbench.store import list_runs, read_run

    if names:
        return [read_run(find_run(name, results)) for name in names]
    found: list[Run] = []
    folders = list_runs(results)
    if not folders:
        raise ResultsError(
            f"no run found in {results}; create one with `synthbench run --suite table4`, or give "
            "another folder with --results"
        )
    for folder in folders:
        try:
            run = read_run(folder)
        except ResultsError as error:
            complain(f"synthbench: {error}")
            continue
        if run.info.finished is not None:
            found.append(run)
    return found
