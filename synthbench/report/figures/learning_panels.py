"""The panels of figures of trainings: learning curves, and the metric against a cost of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from synthbench.analysis.learning import Axis
from synthbench.report.data.trainings import Group
from synthbench.report.figures.learning_data import COSTS, Lines, Values
from synthbench.report.figures.length_panel import COLOURS, DASHES, SHAPES

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 250, 200  # of a panel, in pixels
AXIS_TITLES: dict[Axis, str] = {
    "steps": "training steps",
    "seconds": "training time (s)",
    "flops": "training FLOPs",
}
X_FORMATS: dict[Axis, str] = {"steps": ",d", "seconds": "~r", "flops": "~s"}
COST_TITLES = {
    "step_seconds": "time of a step (ms)",
    "peak_bytes": "peak memory (MB)",
    "step_flops": "FLOPs of a step",
}
COST_FORMATS = {"step_seconds": "~r", "peak_bytes": "~r", "step_flops": "~s"}
COST_SCALES = {"step_seconds": 1e3, "peak_bytes": 1e-6, "step_flops": 1.0}
FEW_TICKS = 5
LOSS_TITLE = "held-out loss (nats)"


def curve_panel(
    kind: str,
    axis: Axis,
    variants: Sequence[str],
    *,
    has_target: bool,
    x_title: str | None,
    y_title: str | None,
) -> alt.LayerChart:
    """Loss or metric against one axis: means with bands, failed seeds, the target."""
    import altair as alt

    looks = _looks(variants, has_lines=True)
    x = alt.X(
        f"{axis}:Q", axis=alt.Axis(title=x_title, tickCount=FEW_TICKS, format=X_FORMATS[axis])
    )

    def y(field: str) -> alt.Y:
        return alt.Y(
            f"{field}:Q",
            scale=alt.Scale(zero=False),
            axis=alt.Axis(title=y_title, tickCount=FEW_TICKS, format="~r"),
        )

    means, failed, ends = (
        alt.Chart(alt.NamedData(f"{kind}_{name}")).transform_filter(f"isValid(datum.{axis})")
        for name in Lines._fields
    )
    layers: list[Any] = [
        means.mark_area(opacity=0.18).encode(
            x=x, y=y("low"), y2="high:Q", color=looks["color"]
        ),
        failed.mark_line(strokeWidth=0.8, opacity=0.8).encode(
            x=x, y=y("value"), color=looks["color"], detail="seed:N"
        ),
        ends.mark_text(text="\u00d7", fontSize=16).encode(
            x=x, y=y("value"), color=looks["color"]
        ),
        means.mark_line(strokeWidth=1.8).encode(
            x=x, y=y("value"), color=looks["color"], strokeDash=looks["strokeDash"]
        ),
    ]  # fmt: skip
    if has_target:
        rule = alt.Chart(alt.NamedData("target"))
        layers.append(
            rule.mark_rule(strokeDash=[2, 3], color="#555555").encode(y=alt.Y("target:Q"))
        )
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)


def pareto_panel(
    group: Group, cost: str, variants: Sequence[str], *, is_first: bool
) -> alt.LayerChart:
    """The metric against one cost of a step, with the front."""
    import altair as alt

    looks = _looks(variants, has_lines=False)
    x = alt.X(
        f"{cost}:Q",
        scale=alt.Scale(type="log", nice=False, padding=30),
        axis=alt.Axis(title=COST_TITLES[cost], tickCount=FEW_TICKS, format=COST_FORMATS[cost]),
    )

    def y(field: str) -> alt.Y:
        title = metric_title(group) if is_first else None
        return alt.Y(
            f"{field}:Q",
            scale=alt.Scale(zero=False, padding=12),
            axis=alt.Axis(title=title, tickCount=FEW_TICKS, format="~r"),
        )

    base = alt.Chart(alt.NamedData("points")).transform_filter(f"isValid(datum.{cost})")
    front = base.transform_filter(f"indexof(datum.front, '{cost}') >= 0")
    layers = [
        front.mark_line(
            interpolate="step-after", stroke="#777777", strokeWidth=1, strokeDash=[4, 3]
        ).encode(x=x, y=y("value"), order=f"{cost}:Q"),
        base.mark_rule(strokeWidth=1.5).encode(x=x, y=y("low"), y2="high:Q", color=looks["color"]),
        base.mark_point(size=60, filled=True, opacity=1).encode(
            x=x, y=y("value"), color=looks["color"], shape=looks["shape"]
        ),
        front.mark_text(align="left", dx=8, dy=-7, fontSize=11).encode(
            x=x, y=y("value"), text="variant:N", color=looks["color"]
        ),
    ]
    return alt.LayerChart(layer=layers, width=WIDTH, height=HEIGHT)


def scaled_costs(points: Sequence[Values]) -> list[Values]:
    """The points with their costs in the units of the axes."""
    return [
        point | {name: point[name] * COST_SCALES[name] for name in COSTS if point[name] is not None}
        for point in points
    ]


def metric_title(group: Group) -> str:
    """The label of the metric that variants are compared by, with its better direction."""
    direction = f" ({group.better} is better)" if group.better else ""
    return f"{group.declared.label}{direction}"


def _looks(variants: Sequence[str], *, has_lines: bool) -> dict[str, Any]:
    """Colour, shape and dashes of each variant, the same in every figure of a run."""
    import altair as alt

    names = list(variants)
    line: dict[str, Any] = (
        {"symbolType": "stroke", "symbolStrokeWidth": 2, "symbolSize": 250} if has_lines else {}
    )
    legend = alt.Legend(
        title=None, orient="bottom", columns=8, symbolOpacity=1, labelLimit=160, **line
    )

    def scale(looks: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=names, range=[looks[n % len(looks)] for n in range(len(names))])

    return {
        "color": alt.Color("variant:N", scale=scale(COLOURS), legend=legend),
        "shape": alt.Shape("variant:N", scale=scale(SHAPES), legend=legend),
        "strokeDash": alt.StrokeDash("variant:N", scale=scale(DASHES), legend=legend),
    }
