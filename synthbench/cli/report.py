"""`synthbench report`: runs as one HTML page that can be shared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Plugin, Results
from synthbench.cli.output import complain, require_folder_of, say
from synthbench.cli.runs import find_run, newest_run

if TYPE_CHECKING:
    from synthbench.store import Run


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="The folder of a run, suite/run, or a suite for its newest run. Several stand on "
            "one page. Default: the newest run.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.")] = Path(
        "report.html"
    ),
    plugin: Plugin = [],  # noqa: B006
    results: Results = Path("results"),
) -> None:
    """Write runs as one HTML page: tables, charts, environment, and every sample.

    The page is one file. It loads nothing from the network and works offline. The same records
    always give the same bytes.
    """
    from synthbench.report.page.page import report_page, write_page
    from synthbench.run.extensions import load_plugin

    for module in plugin:
        load_plugin(module)
    require_folder_of(out)
    named = [find_run(text, results) for text in runs or []]
    folders = list(dict.fromkeys(named)) or [newest_run(results)]
    measured = [_read(folder) for folder in folders]
    write_page(report_page(measured), out)
    say(out)


def _read(folder: Path) -> Run:
    from synthbench.store import read_run

    found = read_run(folder)
    for damage in found.damaged:
        complain(f"{folder}: {damage}; skipped")
    if found.info.finished is None:
        complain(f"{folder}: not finished; the page shows what was measured so far")
    return found
