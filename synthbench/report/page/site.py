"""A folder of static pages: one per run, and an index of all of them."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from synthbench.report.data.context import variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.data.machines import kinds_of
from synthbench.report.data.noise import noise_of, percentage
from synthbench.report.page.page import render, table_scripts
from synthbench.store import Run

INDEX = "index.html"
UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Line:
    """A run in the index; `link`: its page, relative to the index."""

    link: str
    suite: str
    run: str
    device: str
    cpu: str
    started: str
    state: str
    frameworks: str
    variants: int
    lengths: str
    rounds: int
    cells: int
    ok: int
    noise: str


def line_of(run: Run, place: Path) -> Line:
    """The line of a run whose page is at `place/index.html`, relative to the site."""
    grid = Grid(run.records, variant_order(run.info), kinds_of(run.info))
    floors = noise_of(grid, run.info).by_framework
    lengths = grid.lengths()
    return Line(
        link=quote(os.fsencode((place / INDEX).as_posix())),
        suite=run.info.suite,
        run=run.full_path.name,
        device=run.info.device,
        cpu=str(run.info.environment.get("cpu") or "unknown"),
        started=run.info.started,
        state=UNFINISHED if run.info.finished is None else "finished",
        frameworks=", ".join(grid.frameworks()),
        variants=len({key.variant for key in grid.ids}),
        lengths=", ".join(map(str, lengths)),
        rounds=len({record.round for record in run.records}),
        cells=len(grid.keys),
        ok=sum(grid.missing(key) is None for key in grid.keys),
        noise=", ".join(
            f"{framework} {percentage(statistics.median(found))}"
            for framework, found in floors.items()
        )
        or "not measured",
    )


def index_page(lines: Sequence[Line]) -> str:
    """The index, the newest run first."""
    newest = sorted(lines, key=lambda line: (line.started, line.link), reverse=True)
    return render("site.html.j2", [table_scripts()], lines=newest)
