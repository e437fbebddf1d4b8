"""`synthbench plot`: the picture of a run, time and memory against length."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from synthbench.cli.options import Results, split_list
from synthbench.cli.output import complain
from synthbench.cli.runs import find_run, newest_run


class Mode(StrEnum):
    """What a step is."""

    TRAIN = "train"
    FORWARD = "forward"


def plot(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run's folder, suite/run, or a suite for its newest run. The newest of all "
            "without it.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Where to write.", show_default="plots in the run"
        ),
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="What a step is.")] = Mode.TRAIN,
    variants: Annotated[
        list[str],
        typer.Option(
            "--variants",
            metavar='"V,FR(rank=32)+V"',
            help="Draw these, by comma, in place of a readable selection. Repeatable.",
            show_default=False,
        ),
    ] = [],  # noqa: B006  typer reads the default, nothing changes it
    setting: Annotated[
        str | None,
        typer.Option(
            "--setting",
            metavar='"form=fused"',
            help="Where cells differ in more than variant and length: which of them, as tables "
            "name it.",
            show_default="the fused form, or the first",
        ),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Draw time and peak memory of a step against length, a line a variant, as SVG and PNG.

    The same records give the same files, byte for byte.
    """
    from synthbench.report.figures.length_plot import write_plots
    from synthbench.store import read_run

    measured = read_run(newest_run(results) if run is None else find_run(run, results))
    for damage in measured.damaged:
        complain(f"{measured.path}: {damage}; left out")
    wanted = split_list(variants)
    for path in write_plots(measured, out, mode=mode.value, variants=wanted, setting=setting):
        typer.echo(str(path))
