"""One panel of a figure: the lines of one quantity in one framework, on log scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from synthbench.report.figures import label_placement
from synthbench.report.figures.label_placement import HEIGHT, Quantity
from synthbench.report.figures.series import Series

if TYPE_CHECKING:
    import altair as alt

WIDTH = 268  # pixels
# Okabe and Ito's colours for all kinds of colour vision, without yellow, which is hard to see on
# white, and with orange and sky blue darkened. After eight lines they repeat, dashed.
COLOURS = (
    "#000000", "#0072B2", "#3FA0D8", "#D55E00", "#C98A00", "#009E73", "#B8528C", "#7A5230",
)  # fmt: skip
SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
DASHES = [[1, 0]] * len(COLOURS) + [[5, 3]] * len(COLOURS)


def panel(
    found: Sequence[Series],
    names: Sequence[str],
    quantity: Quantity,
    limits: tuple[float, float],
    lengths: Sequence[int],
    *,
    heading: str,
    x_title: str | None,
    y_title: str | None,
) -> alt.LayerChart:
    """A chart with one line per variant, and its name at the end of the line."""
    import altair as alt

    x = alt.X(
        "length:Q",
        scale=alt.Scale(type="log", base=2, domain=label_placement.span(lengths), nice=False),
        axis=alt.Axis(values=list(lengths), title=x_title, format="d", titleY=30, labelFlush=False),
    )
    y_axis = alt.Axis(
        values=label_placement.ticks(*limits),
        title=y_title,
        labelExpr="format(datum.value, ',')",
        titleX=-46,
    )
    scale = alt.Scale(type="log", domain=list(limits), nice=False)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=y_axis)

    def scale_of(looks: Sequence[Any]) -> alt.Scale:
        chosen = [looks[n % len(looks)] for n in range(len(names))]
        return alt.Scale(domain=list(names), range=chosen)

    colour = alt.Color("variant:N", scale=scale_of(COLOURS), legend=None)
    shape = alt.Shape("variant:N", scale=scale_of(SHAPES), legend=None)
    dash = alt.StrokeDash("variant:N", scale=scale_of(DASHES), legend=None)
    points = alt.Chart(alt.InlineData(values=label_placement.points(found, quantity)))
    bands = alt.Chart(alt.InlineData(values=label_placement.bands(found, quantity)))
    labels = alt.Chart(alt.InlineData(values=label_placement.labels(found, quantity, limits)))
    above = alt.Chart(alt.InlineData(values=[{"text": heading}]))
    failures = alt.Chart(alt.InlineData(values=label_placement.failures(found, limits)))
    layers = [
        bands.mark_area(opacity=0.2).encode(x=x, y=y("low"), y2="high:Q", color=colour),
        points.mark_line(strokeWidth=1.8).encode(x=x, y=y("cost"), color=colour, strokeDash=dash),
        points.mark_point(size=26, filled=True, opacity=1).encode(
            x=x, y=y("cost"), color=colour, shape=shape
        ),
        labels.mark_text(align="left", dx=8, fontSize=11).encode(
            x=x, y=y("y"), text="variant:N", color=colour
        ),
        failures.mark_text(align="right", dx=4, fontSize=12).encode(
            x=x, y=y("y"), text="text:N", color=colour
        ),
        above.mark_text(align="center", fontSize=13, fontWeight="bold").encode(
            x=alt.value(WIDTH / 2), y=alt.value(-12), text="text:N"
        ),
    ]
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)
