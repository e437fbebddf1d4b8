"""`synthbench export`: write the records of a run in the format of another tool."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from synthbench.cli.completion import complete_run
from synthbench.cli.options import Plugin, Results
from synthbench.cli.output import complain, require_folder_of, write
from synthbench.cli.runs import find_run, newest_run
from synthbench.errors import NotationError, ResultsError

if TYPE_CHECKING:
    from synthbench.store import Run


class Format(StrEnum):
    """The formats to export."""

    PYTEST_BENCHMARK = "pytest-benchmark"
    CSV = "csv"
    PARQUET = "parquet"


def export(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="The folder of a run, suite/run, or a suite for its newest run. Default: the "
            "newest run.",
            show_default=False,
            autocompletion=complete_run,
        ),
    ] = None,
    *,
    format: Annotated[Format, typer.Option("--format", help="The format.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="The file to write.", show_default="standard output"
        ),
    ] = None,
    plugin: Plugin = [],  # noqa: B006
    results: Results = Path("results"),
) -> None:
    """Write the records of a run in the format of another tool.

    pytest-benchmark: a JSON file for `pytest-benchmark compare`, with one benchmark per cell and
    the samples of all its rounds. csv: one row per record, without raw samples. parquet: one row
    per record, with raw samples; needs pyarrow and --out.
    """
    from synthbench.run.extensions import load_plugin
    from synthbench.store import read_run

    for module in plugin:
        load_plugin(module)
    if format is Format.PARQUET and out is None:
        raise NotationError(
            "--format parquet needs a file, because Parquet is not text; give one with --out"
        )
    if out is not None:
        require_folder_of(out)
    folder = find_run(run, results) if run else newest_run(results)
    measured = read_run(folder)
    for damage in measured.damaged:
        complain(f"{folder}: {damage}; skipped")
    if out is None:
        write(_text(measured, format))
    else:
        _write(measured, format, out)
    exported = _exported(measured, format)
    complain(f"{folder}: {exported} exported" + (f" to {out}" if out else ""))


def _exported(run: Run, format: Format) -> str:
    """How much of a run was exported; tells what a file of pytest-benchmark leaves out."""
    from synthbench.record import latest
    from synthbench.report.export.benchmark import cell_rounds, has_benchmark, worst

    if format is not Format.PYTEST_BENCHMARK:
        return f"{len(latest(run.records))} records"
    cells = cell_rounds(run.records).values()
    outcomes = [worst(rounds).outcome for rounds in cells if not has_benchmark(rounds)]
    if outcomes:
        counted = Counter("ok without samples" if one == "ok" else one for one in outcomes)
        ordered = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))
        found = ", ".join(f"{count} {outcome}" for outcome, count in ordered)
        complain(f"{len(outcomes)} of {len(cells)} cells are left out: {found}")
    return f"{len(cells) - len(outcomes)} cells"


def _write(run: Run, format: Format, out: Path) -> None:
    from synthbench.report.export.frames import write_parquet

    try:
        if format is Format.PARQUET:
            write_parquet(run.records, out)
        else:
            out.write_bytes(_text(run, format).encode())
    except OSError as error:
        raise ResultsError(
            f"cannot write {out}: {error.strerror or error}; choose another file with --out"
        ) from error


def _text(run: Run, format: Format) -> str:
    from synthbench.report.export.frames import csv_text
    from synthbench.report.export.pytest_benchmark import pytest_benchmark_text

    if format is Format.CSV:
        return csv_text(run.records)
    return pytest_benchmark_text(run)
