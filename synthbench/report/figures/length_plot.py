"""The plot of a run: cost of a step against length, log-log, one line per variant.

The same records give the same bytes. `label_placement.py` places the marks, `length_panel.py` draws
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthbench.report.data.context import context_of, variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.figures import label_placement
from synthbench.report.figures.image_files import FONT, write_pictures
from synthbench.report.figures.label_placement import Quantity
from synthbench.report.figures.length_panel import panel
from synthbench.report.figures.series import choose_setting, choose_variants, series_of
from synthbench.store import Run

if TYPE_CHECKING:
    import altair as alt

FOLDER = "plots"
NAMES = {"torch": "PyTorch", "jax": "JAX"}
STEPS = {"train": "train step", "forward": "forward pass"}
ROW_SPACING, AXIS_WIDTH, LETTER_WIDTH = 34, 44, 6  # pixels, the latter roughly
SHORTEST_NAME = 12  # letters that there is always room for
QUANTITIES = (
    Quantity("seconds", "time of a {step} (ms)", 1e3),
    Quantity("peak_bytes", "peak memory (MB)", 1e-6),
)


def write_plots(
    run: Run,
    folder: Path | None = None,
    *,
    mode: str = "train",
    variants: Sequence[str] = (),
    setting: str | None = None,
) -> list[Path]:
    """Draw a run as SVG and PNG into a folder (`plots` in its own by default); the files written.

    Raises ResultsError for a run without such cells or a folder that cannot be written,
    UnknownNameError for a variant or setting that the run does not have.
    """
    content = spec(run, mode=mode, variants=variants, setting=setting)
    return write_pictures({mode: content}, run.path / FOLDER if folder is None else folder)


def spec(
    run: Run, *, mode: str = "train", variants: Sequence[str] = (), setting: str | None = None
) -> dict[str, Any]:
    """The picture as Vega-Lite: a row of panels a quantity, a panel a framework."""
    import altair as alt

    grid = Grid(run.records, variant_order(run.info))
    where = choose_setting(grid, mode, setting)
    names = choose_variants(grid, where, variants)
    frameworks = [f for f in grid.frameworks(where) if (f, mode) in grid.pairs(where)]
    panels: list[alt.LayerChart] = []
    failed = False
    for quantity in QUANTITIES:
        found = {
            framework: series_of(grid, where, names, framework, mode, quantity.cost)
            for framework in frameworks
        }
        every = [one for series in found.values() for one in series]
        limits = label_placement.limits(every, quantity)
        y_title = quantity.title.format(step=STEPS[mode])
        panels += [
            panel(
                found[framework], names, quantity, limits, grid.lengths(where),
                heading=_heading(grid, framework) if quantity is QUANTITIES[0] else "",
                x_title="sequence length" if quantity is QUANTITIES[-1] else None,
                y_title=y_title if framework == frameworks[0] else None,
            )
            for framework in frameworks
        ]  # fmt: skip
        failed = failed or any(one.out_of_memory for one in every)
    title = _title(run, grid, mode, where, failed)
    letters = max(SHORTEST_NAME, *map(len, names))  # names of lines stand between the columns
    spacing = {"row": ROW_SPACING, "column": AXIS_WIDTH + LETTER_WIDTH * letters}
    chart = alt.concat(*panels, columns=len(frameworks), spacing=spacing, bounds="flush")
    chart = chart.properties(title=title, padding=8, background="white")
    return _configured(chart).to_dict()


def _heading(grid: Grid, framework: str) -> str:
    ways = sorted({r.cell.compile for r in grid.records if r.cell.framework == framework})
    return f"{NAMES[framework]}, {' and '.join(ways)}"


def _title(run: Run, grid: Grid, mode: str, setting: str, failed: bool) -> alt.TitleParams:
    """What was measured, on what: the first lines of the note below each table."""
    import altair as alt

    context = context_of(run, grid).shared
    device = next(line for line in context if line.startswith("Device"))
    lines = [*([f"Setting: {setting}."] if setting else []), *context[:1], device]
    rounds = max(r.round for r in run.records) + 1
    if rounds > 1:
        lines.append(f"Bands span what {rounds} rounds, each in new processes, gave.")
    if failed:
        lines.append(
            f"{label_placement.CROSS} marks the first length that did not fit into memory."
        )
    return alt.TitleParams(
        f"A {STEPS[mode]} against sequence length",
        subtitle=lines,
        anchor="start",
        frame="bounds",
        offset=12,
    )


def _configured(chart: alt.ConcatChart) -> alt.ConcatChart:
    return (
        chart.configure(font=FONT, aria=False)
        .configure_view(stroke="#bbbbbb")
        .configure_axis(
            gridColor="#e6e6e6", domainColor="#888888", tickColor="#888888", labelColor="#333333",
            titleColor="#222222", labelFontSize=11, titleFontSize=12, titleFontWeight="normal",
        )
        .configure_title(
            fontSize=15, subtitleFontSize=11, subtitleColor="#555555", fontWeight="bold"
        )
    )  # fmt: skip
