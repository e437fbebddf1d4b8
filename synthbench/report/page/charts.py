"""The charts of a page as Vega-Lite; the page gives the points and what is chosen.

A chart has the parameters `framework`, `mode`, `setting`, `variants` and `lengths`, and its points
under the name `points`. Colours of texts and lines are CSS, so that a chart follows the page from
light to dark and to paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from synthbench.report.figures.length_panel import COLOURS, DASHES, SHAPES

if TYPE_CHECKING:
    import altair as alt

HEIGHT = 260  # of a chart, in pixels
POINTS = "points"
TEXT = "currentColor"
OF_PANEL = (
    "datum.framework === framework && datum.mode === mode && datum.setting === setting"
    " && indexof(lengths, datum.length) >= 0"
)
SHOWN = "indexof(variants, datum.variant) >= 0"
LAST_LENGTH = "lengths[length(lengths) - 1]"


class Chart(NamedTuple):
    """A chart against length; `field` is one of those that `chart_points` gives."""

    field: str
    title: str
    unit: str
    has_band: bool = True


CHARTS = (
    Chart("time", "Time of a step", "ms"),
    Chart("memory", "Peak memory", "MB"),
    Chart("flops", "FLOPs of one forward pass", "FLOPs", has_band=False),
    Chart("ratio", "Speed relative to the baseline", "times as fast"),
)
PARETO = "pareto"
SCALES = ("log", "linear")
PARAMETERS: dict[str, Any] = {
    "framework": "", "mode": "", "setting": "", "variants": [], "lengths": [],
}  # fmt: skip


def chart_specs(variants: Sequence[str], *, bands: bool) -> dict[str, dict[str, Any]]:
    """Scale -> name of a chart -> its specification, for the variants of a run."""
    return {
        scale: {
            **{
                one.field: finished(
                    _against_length(one, scale, variants, bands and one.has_band), PARAMETERS
                )
                for one in CHARTS
            },
            PARETO: finished(_pareto(scale, variants), PARAMETERS),
        }
        for scale in SCALES
    }


def _against_length(
    chart: Chart, scale: str, variants: Sequence[str], has_band: bool
) -> alt.LayerChart:
    """Lines with points and, where known, bands."""
    import altair as alt

    title = f"{chart.title} ({chart.unit})"
    y_scale = _scale(scale)
    x_scale = alt.Scale(type="log", base=2, nice=False) if scale == "log" else _scale(scale)
    axis = alt.Axis(format="~s" if chart.field == "flops" else "~r", tickCount=5, title=title)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=y_scale, axis=axis)

    x = alt.X(
        "length:Q",
        scale=x_scale,
        axis=alt.Axis(
            title="sequence length", format="d", values=alt.ExprRef("lengths"), labelFlush=False
        ),
    )
    look = looks(variants)
    base = alt.Chart(alt.NamedData(POINTS)).transform_filter(f"{OF_PANEL} && {SHOWN}")
    low, high = f"{chart.field}_low", f"{chart.field}_high"
    known = base.transform_filter(f"isValid(datum.{chart.field})")
    texts = [alt.Tooltip(f"{name}:N") for name in ("variant", "framework", "mode")]
    texts += [alt.Tooltip("length:Q", format="d")]
    texts += [alt.Tooltip(f"{chart.field}:Q", title=title, format=".4~r")]
    if has_band:
        texts += [alt.Tooltip(f"{end}:Q", format=".4~r") for end in (low, high)]
    if chart.field == "ratio":
        texts += [alt.Tooltip("verdict:N")]
    layers: list[Any] = []
    if has_band:
        band = known.transform_filter(f"isValid(datum.{low}) && isValid(datum.{high})")
        layers.append(
            band.mark_area(opacity=0.18).encode(x=x, y=y(low), y2=f"{high}:Q", color=look["color"])
        )
    layers += [
        known.mark_line(strokeWidth=1.8).encode(
            x=x, y=y(chart.field), color=look["color"], strokeDash=look["strokeDash"]
        ),
        known.mark_point(size=42, filled=True, opacity=1).encode(
            x=x, y=y(chart.field), color=look["color"], shape=look["shape"], tooltip=texts
        ),
    ]
    return alt.LayerChart(layer=layers)


def _scale(name: str) -> alt.Scale:
    import altair as alt

    if name == "log":
        return alt.Scale(type="log", nice=False, padding=14)
    return alt.Scale(type="linear", zero=True)


def _pareto(scale: str, variants: Sequence[str]) -> alt.LayerChart:
    """Time against memory at the last of `lengths`; down and to the left is better."""
    import altair as alt

    def axis(field: str, title: str, kind: Any) -> Any:
        shown = alt.Axis(title=title, tickCount=5, format="~r")
        return kind(f"{field}:Q", scale=_scale(scale), axis=shown)

    look = looks(variants)
    at_longest = (
        alt.Chart(alt.NamedData(POINTS))
        .transform_filter(OF_PANEL)
        .transform_filter("isValid(datum.time) && isValid(datum.memory)")
        .transform_filter(f"datum.length === {LAST_LENGTH}")
    )
    base, front = at_longest.transform_filter(SHOWN), at_longest.transform_filter("datum.front")
    x = axis("memory", "Peak memory (MB)", alt.X)
    y = axis("time", "Time of a step (ms)", alt.Y)
    points = base.mark_point(size=70, filled=True, opacity=1).encode(
        x=x,
        y=y,
        color=look["color"],
        shape=look["shape"],
        tooltip=[
            alt.Tooltip("variant:N"),
            alt.Tooltip("length:Q", format="d"),
            alt.Tooltip("time:Q", title="time (ms)", format=".4~r"),
            alt.Tooltip("memory:Q", title="memory (MB)", format=".4~r"),
        ],
    )
    line = front.mark_line(
        interpolate="step-after", stroke=TEXT, strokeWidth=1, strokeDash=[4, 3], opacity=0.6
    ).encode(x=x, y=y, order="memory:Q")
    names = front.mark_text(align="left", dx=8, dy=-6, fontSize=11, fill=TEXT).encode(
        x=x, y=y, text="variant:N"
    )
    title = alt.TitleParams(
        alt.ExprRef(f"'length ' + {LAST_LENGTH}"),
        anchor="start", color=TEXT, fontSize=11, fontWeight="normal",
    )  # fmt: skip
    return alt.LayerChart(layer=[line, points, names], title=title)


def looks(variants: Sequence[str]) -> dict[str, Any]:
    """Colour, shape and dashes of each variant, the same in every chart and for every choice."""
    import altair as alt

    colours = [f"var(--line-{n})" for n in range(len(COLOURS))]
    names = list(variants)
    legend = alt.Legend(
        title=None,
        orient="bottom",
        columns=3,
        labelLimit=130,
        symbolOpacity=1,
        values=alt.ExprRef("variants"),
    )

    def scale(looks: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=names, range=[looks[n % len(looks)] for n in range(len(names))])

    return {
        "color": alt.Color("variant:N", scale=scale(colours), legend=legend),
        "shape": alt.Shape("variant:N", scale=scale(SHAPES), legend=legend),
        "strokeDash": alt.StrokeDash("variant:N", scale=scale(DASHES), legend=legend),
    }


def finished(chart: alt.LayerChart, params: Mapping[str, Any]) -> dict[str, Any]:
    """A chart with these parameters and their first values, that follows the page's colours."""
    import altair as alt

    chart = chart.properties(width="container", height=HEIGHT).add_params(
        *(alt.param(name=name, value=value) for name, value in params.items())
    )
    chart = chart.configure(background="transparent", font="system-ui, sans-serif")
    chart = chart.configure_view(stroke=TEXT, strokeOpacity=0.25)
    chart = chart.configure_axis(
        labelColor=TEXT, titleColor=TEXT, domainColor=TEXT, tickColor=TEXT, gridColor=TEXT,
        gridOpacity=0.12, domainOpacity=0.5, tickOpacity=0.5, labelFontSize=11, titleFontSize=12,
        titleFontWeight="normal",
    )  # fmt: skip
    chart = chart.configure_legend(labelColor=TEXT, labelFontSize=11)
    content = chart.to_dict(validate=False)
    content.pop("$schema")  # an address on the web, which nothing here reads
    return content
