"""`synthbench plot`: the figures of a run, time and memory against length, learning curves."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from synthbench.cli.completion import complete_run, complete_variants
from synthbench.cli.options import VARIANTS_NAMES, Results, split_variants
from synthbench.cli.output import complain, say
from synthbench.cli.runs import find_run, newest_run


class Mode(StrEnum):
    """What a step can be."""

    TRAIN = "train"
    FORWARD = "forward"
    DECODE = "decode"


def plot(
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
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="The folder to write to.",
            show_default="plots in the run",
        ),
    ] = None,
    mode: Annotated[
        Mode, typer.Option("--mode", help="Train steps, forward passes, or decoded tokens.")
    ] = Mode.TRAIN,
    variants: Annotated[
        list[str],
        typer.Option(
            *VARIANTS_NAMES,
            metavar='"V,FR(rank=32)+V"',
            help="The variants to draw, separated by commas. Repeatable. Default: a few.",
            show_default=False,
            autocompletion=complete_variants,
        ),
    ] = [],  # noqa: B006  typer reads the default, nothing changes it
    setting: Annotated[
        str | None,
        typer.Option(
            "--setting",
            metavar='"form=fused"',
            help="The setting to draw, if the run has several; written as in the tables.",
            show_default="the fused form, or the first",
        ),
    ] = None,
    results: Results = Path("results"),
) -> None:
    """Draw time and peak memory of a step against length, one line per variant, as SVG and PNG.

    Of trainings: loss and metric against steps, time and FLOPs, and the metric against what a step
    costs. The same records always give the same bytes.
    """
    from synthbench.report.figures.run_plots import write_plots
    from synthbench.store import read_run

    measured = read_run(newest_run(results) if run is None else find_run(run, results))
    for damage in measured.damaged:
        complain(f"{measured.path}: {damage}; skipped")
    wanted = split_variants(variants)
    for path in write_plots(measured, out, mode=mode.value, variants=wanted, setting=setting):
        say(path)
