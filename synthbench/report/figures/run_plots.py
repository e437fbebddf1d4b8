"""The figures of a run as files: what a step costs against length, and what was learned."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthbench.errors import ResultsError, UnknownNameError
from synthbench.report.data.context import named
from synthbench.report.data.prepared import prepare
from synthbench.report.figures.image_files import write_figures
from synthbench.report.figures.learning_plot import learning_figures
from synthbench.report.figures.length_plot import spec
from synthbench.store import Run

FOLDER = "plots"


def write_plots(
    run: Run,
    folder: Path | None = None,
    *,
    mode: str = "train",
    variants: Sequence[str] = (),
    setting: str | None = None,
) -> list[Path]:
    """Draw a run as SVG and PNG and return the files; by default into `plots` in its folder.

    `mode` and `setting` choose what is drawn of cells of the task `cost`. Raises ResultsError for a
    run without anything to draw or a folder that cannot be written, UnknownNameError for a variant
    or setting that the run does not have.
    """
    prepared = prepare(run)
    learned = dict.fromkeys(v for one in prepared.context.qualities for v in one.group.variants)
    timed = {key.variant for key in prepared.cost_grid.ids}
    for text in variants:
        if learned and named(text) not in (*learned, *timed):
            raise UnknownNameError("variant of this run", text, dict.fromkeys([*learned, *timed]))
    if setting is not None and learned and not timed:
        raise ResultsError(
            "--setting chooses among cells of the task `cost`, and this run has none; leave it out"
        )
    specs: dict[str, dict[str, Any]] = {}
    of_cost = [text for text in variants if not learned or named(text) in timed]
    if not learned or (timed and (of_cost or not variants)) or setting is not None:
        records = list(prepared.cost_grid.records)
        alone = dataclasses.replace(run, records=records) if records or learned else run
        specs[mode] = spec(alone, mode=mode, variants=of_cost, setting=setting)
    of_learning = [text for text in variants if named(text) in learned]
    if of_learning or not variants:
        specs |= {one.name: one.spec for one in learning_figures(prepared, of_learning)}
    if not specs:
        raise ResultsError(
            "no training of this run has a value of its metric, so there is nothing to draw; "
            "`synthbench tables RUN --table outcomes` says how they ended"
        )
    return write_figures(specs, run.path / FOLDER if folder is None else folder)
