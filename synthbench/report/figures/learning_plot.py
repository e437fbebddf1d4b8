"""Figures of trainings: loss and metric against what they cost, and Pareto plots of the metric."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from synthbench.errors import UnknownNameError
from synthbench.report.data.context import Context, named
from synthbench.report.data.prepared import Prepared
from synthbench.report.data.trainings import LOSS, Group
from synthbench.report.figures.image_files import FONT
from synthbench.report.figures.learning_data import (
    COSTS,
    Values,
    has_axis,
    lines_of,
    pareto_points,
)
from synthbench.report.figures.learning_panels import (
    AXIS_TITLES,
    LOSS_TITLE,
    curve_panel,
    metric_title,
    pareto_panel,
    scaled_costs,
)

if TYPE_CHECKING:
    import altair as alt

NAMES = {"torch": "PyTorch", "jax": "JAX"}


class Figure(NamedTuple):
    """A picture of one group of trainings; `name` is that of its file."""

    name: str
    title: str
    spec: dict[str, Any]


def learning_figures(prepared: Prepared, variants: Sequence[str] = ()) -> list[Figure]:
    """The curves and the Pareto plot of each group; none for a run without trainings.

    `variants`, in any notation, are those to draw; by default all. Raises UnknownNameError for one
    that the trainings do not have.
    """
    groups = [one.group for one in prepared.context.qualities]
    known = dict.fromkeys(name for group in groups for name in group.variants)
    for text in variants:
        if groups and named(text) not in known:
            raise UnknownNameError("variant of the trainings of this run", text, known)
    wanted = list(dict.fromkeys(map(named, variants))) or list(known)
    found: list[Figure] = []
    for group, name in zip(groups, _file_names(groups), strict=True):
        if not any(curve.values for seeds in group.curves.values() for curve in seeds.values()):
            continue
        shown = [variant for variant in wanted if variant in group.variants]
        title = _title(group)
        found.append(Figure(f"curves_{name}", f"Learning curves, {title}",
                            _curves(group, shown, wanted, prepared.context)))  # fmt: skip
        points = pareto_points(group, shown, prepared.run.records)
        if points:
            found.append(Figure(f"pareto_{name}", f"Metric and cost, {title}",
                                _pareto(group, points, wanted, prepared.context)))  # fmt: skip
    return found


def _file_names(groups: Sequence[Group]) -> list[str]:
    """Task and framework, the length where there are several, and a number for each setting."""
    lengths = Counter((g.place.task, g.place.seq_len) for g in groups)
    several = Counter(task for task, _ in lengths)
    settings = list(dict.fromkeys(g.place.setting for g in groups))
    names = []
    for group in groups:
        place = group.place
        parts = [place.task, place.framework]
        parts += [str(place.seq_len)] if several[place.task] > 1 else []
        parts += [str(settings.index(place.setting) + 1)] if len(settings) > 1 else []
        names.append(re.sub(r"[^\w-]+", "_", "_".join(parts)))
    return names


def _title(group: Group) -> str:
    place = group.place
    parts = [place.task, NAMES.get(place.framework, place.framework), f"length {place.seq_len}"]
    return ", ".join([*parts, *([place.setting] if place.setting else [])])


def _curves(
    group: Group, shown: Sequence[str], variants: Sequence[str], context: Context
) -> dict[str, Any]:
    """One row of panels for the loss and one for the metric, one column per axis."""

    axes = [axis for axis in AXIS_TITLES if has_axis(group, axis)]
    titles = {LOSS: LOSS_TITLE, group.metric: metric_title(group)}
    failed = False
    panels: list[alt.LayerChart] = []
    data: dict[str, Sequence[Values]] = {}
    for quantity, title in titles.items():
        lines = lines_of(group, shown, quantity)
        kind = LOSS if quantity == LOSS else "metric"
        data |= {f"{kind}_{name}": values for name, values in lines._asdict().items()}
        failed = failed or bool(lines.ends)
        panels += [
            curve_panel(
                kind, axis, variants,
                has_target=quantity == group.metric and group.target is not None,
                x_title=AXIS_TITLES[axis] if quantity == group.metric else None,
                y_title=title if axis == axes[0] else None,
            )
            for axis in axes
        ]  # fmt: skip
    if group.target is not None:
        data["target"] = [{"target": group.target * group.declared.scale}]
    notes = ["Lines: the mean over seeds. Bands: the range over seeds."] * (len(group.seeds) > 1)
    notes += ["Thin lines that end in a cross: seeds that diverged or failed."] * failed
    notes += ["Dashed: the target."] * (group.target is not None)
    return _finished(panels, len(axes), data, group, notes, context)


def _pareto(
    group: Group, points: Sequence[Values], variants: Sequence[str], context: Context
) -> dict[str, Any]:
    """The metric against each cost of a step that is known."""

    costs = [cost for cost in COSTS if any(point[cost] is not None for point in points)]
    panels = [pareto_panel(group, cost, variants, is_first=cost == costs[0]) for cost in costs]
    notes = ["The metric at the last evaluation."]
    notes += ["Bars: the range over seeds."] * (len(group.seeds) > 1)
    notes += ["On the dashed line: no other is as good for less."] * (group.better is not None)
    return _finished(panels, len(costs), {"points": scaled_costs(points)}, group, notes, context)


def _finished(
    panels: Sequence[alt.LayerChart],
    columns: int,
    data: Mapping[str, Sequence[Values]],
    group: Group,
    notes: Sequence[str],
    context: Context,
) -> dict[str, Any]:
    """The figure: its title, its panels, and their data.

    Altair would copy every panel for each part that is put around it, which takes seconds; so the
    panels are put into a figure that has one empty panel.
    """
    import altair as alt

    device = [line for line in context.shared if line.startswith("Device")]
    title = alt.TitleParams(
        _title(group),
        subtitle=[*device, " ".join(notes)],
        anchor="start",
        frame="bounds",
        offset=12,
    )
    chart = alt.concat(alt.Chart(alt.NamedData("none")).mark_point(), columns=columns)
    chart = chart.properties(title=title, padding=8, background="white")
    chart = chart.configure(font=FONT, aria=False).configure_view(stroke="#bbbbbb")
    chart = chart.configure_axis(
        gridColor="#e6e6e6", domainColor="#888888", tickColor="#888888", labelColor="#333333",
        titleColor="#222222", labelFontSize=11, titleFontSize=12, titleFontWeight="normal",
    )  # fmt: skip
    chart = chart.configure_title(
        fontSize=15, subtitleFontSize=11, subtitleColor="#555555", fontWeight="bold"
    )
    parts = [panel.to_dict(validate=False) for panel in panels]
    inner = [
        {name: value for name, value in part.items() if name not in ("$schema", "config")}
        for part in parts
    ]
    return chart.to_dict() | {"concat": inner, "datasets": dict(data)}
