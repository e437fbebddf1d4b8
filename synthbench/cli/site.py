"""`synthbench site`: a folder of pages, one per run, for static hosting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from synthbench.cli.options import Plugin
from synthbench.cli.output import complain, say
from synthbench.errors import ResultsError, SynthbenchError


def site(
    results: Annotated[
        Path, typer.Argument(metavar="[RESULTS]", help="The folder of the runs.")
    ] = Path("results"),
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="The folder to write to.")
    ] = Path("site"),
    plugin: Plugin = [],  # noqa: B006
) -> None:
    """Write a page for every run, as `synthbench report` does, and an index of all of them.

    Pages of runs that are gone are not deleted. A run of which no page can be made is named, the
    others are still written, and the exit code is 1.
    """
    from synthbench.report.page.page import report_page, write_page
    from synthbench.report.page.site import INDEX, index_page, line_of
    from synthbench.run.extensions import load_plugin
    from synthbench.store import list_runs, read_run

    for module in plugin:
        load_plugin(module)
    folders = list_runs(results)
    if not folders:
        raise ResultsError(
            f"no run found in {results}; create one with `synthbench run --suite smoke`, or name "
            "another folder"
        )
    lines = []
    refused = 0
    for folder in folders:
        place = folder.relative_to(results)
        if place == Path():  # the folder given is a run: its page must not be where the index is
            place = Path(folder.resolve().name)
        try:
            run = read_run(folder)
            for damage in run.damaged:
                complain(f"{folder}: {damage}; skipped")
            page, line = report_page([run]), line_of(run, place)
        except SynthbenchError as error:
            refused += 1
            complain(f"synthbench: no page of {folder}: {error}")
            continue
        write_page(page, out / place / INDEX)
        lines.append(line)
    write_page(index_page(lines), out / INDEX)
    say(out / INDEX)
    if refused:
        raise typer.Exit(1)
