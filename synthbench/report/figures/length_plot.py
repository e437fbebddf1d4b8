"""The figure of a run: time and memory of a step against length, one line per variant.

The same records always give the same bytes. `label_placement.py` computes the positions of the
marks, `length_panel.py` draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from synthbench.report.data.context import device_line, model_line, variant_order
from synthbench.report.data.grid import Grid
from synthbench.report.data.machines import kinds_of
from synthbench.report.figures import label_placement
from synthbench.report.figures.image_files import FONT
from synthbench.report.figures.label_placement import Quantity
from synthbench.report.figures.length_panel import panel
from synthbench.report.figures.series import choose_setting, choose_variants, series_of
from synthbench.store import Run

if TYPE_CHECKING:
    import altair as alt

NAMES = {"torch": "PyTorch", "jax": "JAX"}
STEP_NAMES = {"train": "train step", "forward": "forward pass", "decode": "decoded token"}
ROW_SPACING, AXIS_WIDTH, LETTER_WIDTH = 34, 44, 6  # pixels; the last is approximate
SHORTEST_NAME = 12  # letters; there is always room for as many
QUANTITIES = (
    Quantity("seconds", "time of a {step} (ms)", 1e3),
    Quantity("peak_bytes", "peak memory (MB)", 1e-6),
)


def spec(
    run: Run, *, mode: str = "train", variants: Sequence[str] = (), setting: str | None = None
) -> dict[str, Any]:
    """The figure as Vega-Lite: one row of panels per quantity, one panel per framework."""
    import altair as alt

    grid = Grid(run.records, variant_order(run.info), kinds_of(run.info))
    chosen = choose_setting(grid, mode, setting)
    names = choose_variants(grid, chosen, variants)
    frameworks = [f for f in grid.frameworks(chosen) if (f, mode) in grid.pairs(chosen)]
    headings = {f: _heading(grid, chosen, f, mode) for f in frameworks}
    panels: list[alt.LayerChart] = []
    failed = False
    for quantity in QUANTITIES:
        found = {
            framework: series_of(grid, chosen, names, framework, mode, quantity.cost)
            for framework in frameworks
        }
        every = [one for series in found.values() for one in series]
        limits = label_placement.limits(every, quantity)
        y_title = quantity.title.format(step=STEP_NAMES[mode])
        panels += [
            panel(
                found[framework], names, quantity, limits, grid.lengths(chosen),
                heading=headings[framework] if quantity is QUANTITIES[0] else "",
                x_title="sequence length" if quantity is QUANTITIES[-1] else None,
                y_title=y_title if framework == frameworks[0] else None,
            )
            for framework in frameworks
        ]  # fmt: skip
        failed = failed or any(one.out_of_memory for one in every)
    title = _title(run, grid, mode, chosen, failed)
    letters = max(SHORTEST_NAME, *map(len, names))  # the names of the lines are between the columns
    spacing = {"row": ROW_SPACING, "column": AXIS_WIDTH + LETTER_WIDTH * letters}
    chart = alt.concat(*panels, columns=len(frameworks), spacing=spacing, bounds="flush")
    chart = chart.properties(title=title, padding=8, background="white")
    return _configured(chart).to_dict()


def _heading(grid: Grid, setting: str, framework: str, mode: str) -> str:
    """The framework, and how the cells of its panel are compiled."""
    place = (setting, framework, mode)
    ids = {i for key, i in grid.ids.items() if (key.setting, key.framework, key.mode) == place}
    found = sorted({record.cell.compile for record in grid.records if record.id in ids})
    return f"{NAMES[framework]}, {' and '.join(found)}"


def _title(run: Run, grid: Grid, mode: str, setting: str, failed: bool) -> alt.TitleParams:
    """What was measured and on which device, as in the note of each table."""
    import altair as alt

    lines = [f"Setting: {setting}."] if setting else []
    lines += [model_line(run), device_line(run.info, grid)]
    rounds = max(r.round for r in run.records) + 1
    if rounds > 1:
        lines.append(
            f"Bands: what the 95% intervals of {rounds} rounds span, each in new processes; of "
            "memory, the range of their peaks."
        )
    if failed:
        lines.append(
            f"{label_placement.CROSS} marks the first length that did not fit into memory."
        )
    return alt.TitleParams(
        f"A {STEP_NAMES[mode]} against sequence length",
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
