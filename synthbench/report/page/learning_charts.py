"""The learning curves and Pareto plots of a page as Vega-Lite, and their points.

A chart has the parameter `variants`. The page gives the lines of one group of trainings under the
names of `Lines`, or the points of one group under `points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from synthbench.analysis.learning import Axis
from synthbench.printable import one_line
from synthbench.report.data.prepared import Prepared
from synthbench.report.data.trainings import LOSS, Group
from synthbench.report.figures.learning_data import (
    COSTS,
    Lines,
    Values,
    has_axis,
    lines_of,
    pareto_points,
)
from synthbench.report.figures.learning_panels import (
    AXIS_TITLES,
    COST_FORMATS,
    COST_TITLES,
    FEW_TICKS,
    LOSS_TITLE,
    X_FORMATS,
    metric_title,
    scaled_costs,
)
from synthbench.report.page.charts import SHOWN, TEXT, finished, looks

if TYPE_CHECKING:
    import altair as alt

QUANTITIES = {"metric": "metric", LOSS: "held-out loss"}
TARGET = "target"


def learning_specs(variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Name of an axis or of a cost of a step -> its chart, for the variants of a run.

    The page puts the title of the y axis in, which differs between tasks.
    """
    axes = {axis: _curves(axis, title, variants) for axis, title in AXIS_TITLES.items()}
    return axes | {cost: _pareto(cost, variants) for cost in COSTS}


def learning_groups(prepared: Prepared) -> list[Values]:
    """Per group of trainings: where it belongs, its lines and its points, with safe texts."""
    return [
        _of_group(one.group, prepared)
        for one in prepared.context.qualities
        if any(curve.values for seeds in one.group.curves.values() for curve in seeds.values())
    ]


def _of_group(group: Group, prepared: Prepared) -> Values:
    place, variants = group.place, list(group.variants)
    points = scaled_costs(pareto_points(group, variants, prepared.run.records))
    target = [] if group.target is None else [group.target * group.declared.scale]
    return {
        "task": one_line(place.task),
        "setting": one_line(place.setting),
        "length": place.seq_len,
        "framework": place.framework,
        "titles": {"metric": one_line(metric_title(group)), LOSS: LOSS_TITLE},
        "axes": [axis for axis in AXIS_TITLES if has_axis(group, axis)],
        "metric": _lines(group, group.metric) | {TARGET: [{TARGET: value} for value in target]},
        LOSS: _lines(group, LOSS) | {TARGET: []},
        "points": _safe(points),
    }


def _lines(group: Group, quantity: str) -> Values:
    lines = lines_of(group, list(group.variants), quantity)
    return {name: _safe(values) for name, values in lines._asdict().items()}


def _safe(points: Sequence[Values]) -> list[Values]:
    return [point | {"variant": one_line(point["variant"])} for point in points]


def _curves(axis: Axis, title: str, variants: Sequence[str]) -> dict[str, Any]:
    """The mean of each variant with the range over its seeds, and the seeds that failed."""
    import altair as alt

    look = looks(variants)
    shown = alt.Axis(title=title, tickCount=FEW_TICKS, format=X_FORMATS[axis])
    x = alt.X(f"{axis}:Q", axis=shown)
    means, failed, ends = (
        alt.Chart(alt.NamedData(name)).transform_filter(f"isValid(datum.{axis}) && {SHOWN}")
        for name in Lines._fields
    )
    texts = [alt.Tooltip("variant:N"), alt.Tooltip(f"{axis}:Q", title=title, format=".4~r")]
    texts += [alt.Tooltip(f"{name}:Q", format=".4~r") for name in ("value", "low", "high")]
    layers: list[Any] = [
        means.mark_area(opacity=0.18).encode(x=x, y=_y("low"), y2="high:Q", color=look["color"]),
        failed.mark_line(strokeWidth=0.8, opacity=0.8).encode(
            x=x, y=_y("value"), color=look["color"], detail="seed:N"
        ),
        ends.mark_text(text="\u00d7", fontSize=16).encode(
            x=x, y=_y("value"), color=look["color"], tooltip=[*texts[:3], "seed:N"]
        ),
        means.mark_line(strokeWidth=1.8).encode(
            x=x, y=_y("value"), color=look["color"], strokeDash=look["strokeDash"]
        ),
        means.mark_point(size=30, filled=True, opacity=1).encode(
            x=x, y=_y("value"), color=look["color"], shape=look["shape"], tooltip=texts
        ),
        alt.Chart(alt.NamedData(TARGET)).mark_rule(
            stroke=TEXT, strokeDash=[2, 3], opacity=0.6
        ).encode(y=_y(TARGET)),
    ]  # fmt: skip
    return finished(alt.LayerChart(layer=layers), {"variants": []})


def _pareto(cost: str, variants: Sequence[str]) -> dict[str, Any]:
    """The metric at the last evaluation against a cost of a step."""
    import altair as alt

    look = looks(variants)
    x = alt.X(
        f"{cost}:Q",
        scale=alt.Scale(type="log", nice=False, padding=30),
        axis=alt.Axis(title=COST_TITLES[cost], tickCount=FEW_TICKS, format=COST_FORMATS[cost]),
    )
    every = alt.Chart(alt.NamedData("points")).transform_filter(f"isValid(datum.{cost})")
    base = every.transform_filter(SHOWN)
    front = every.transform_filter(f"indexof(datum.front, '{cost}') >= 0")
    texts = [alt.Tooltip("variant:N"), alt.Tooltip(f"{cost}:Q", format=".4~r")]
    texts += [alt.Tooltip(f"{name}:Q", format=".4~r") for name in ("value", "low", "high")]
    layers = [
        front.mark_line(
            interpolate="step-after", stroke=TEXT, strokeWidth=1, strokeDash=[4, 3], opacity=0.6
        ).encode(x=x, y=_y("value"), order=f"{cost}:Q"),
        base.mark_rule(strokeWidth=1.5).encode(x=x, y=_y("low"), y2="high:Q", color=look["color"]),
        base.mark_point(size=70, filled=True, opacity=1).encode(
            x=x, y=_y("value"), color=look["color"], shape=look["shape"], tooltip=texts
        ),
        front.mark_text(align="left", dx=8, dy=-6, fontSize=11, fill=TEXT).encode(
            x=x, y=_y("value"), text="variant:N"
        ),
    ]
    return finished(alt.LayerChart(layer=layers), {"variants": []})


def _y(field: str) -> alt.Y:
    import altair as alt

    return alt.Y(
        f"{field}:Q",
        scale=alt.Scale(zero=False, padding=12),
        axis=alt.Axis(title=" ", tickCount=FEW_TICKS, format="~r"),
    )
