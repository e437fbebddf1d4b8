"""The learning curves of a run as the template shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthbench.report.data.prepared import Prepared
from synthbench.report.figures.learning_data import COSTS
from synthbench.report.figures.learning_panels import AXIS_TITLES, COST_TITLES
from synthbench.report.figures.learning_plot import NAMES
from synthbench.report.page.learning_charts import QUANTITIES, learning_groups, learning_specs
from synthbench.report.page.packing import packed


@dataclass(frozen=True)
class LearningFigure:
    """One figure per task, length and setting; a panel per framework, with its group's number."""

    kind: str  # curves or pareto
    title: str
    length: int
    panels: list[tuple[int, str, str]]  # number of the group, framework, heading


@dataclass(frozen=True)
class LearningView:
    """The charts of a run's trainings; `data`: what the script of the page reads, packed."""

    quantities: list[tuple[str, str]]  # name, what the page calls it
    axes: list[tuple[str, str]]
    costs: list[tuple[str, str]]  # of the Pareto plots
    figures: list[LearningFigure]
    data: str


def learning_view(prepared: Prepared, variants: Sequence[str]) -> LearningView | None:
    """The view of a run, whose variants are in the order of its filters; None without trainings."""
    groups = learning_groups(prepared)
    if not groups:
        return None
    panels: dict[tuple[str, str, int], list[int]] = {}
    for number, group in enumerate(groups):
        place = group["task"], group["setting"], group["length"]
        panels.setdefault(place, []).append(number)
    figures = []
    for (task, setting, length), numbers in panels.items():
        title = ", ".join(filter(None, (task, f"length {length}", setting)))
        for kind, heading in (("curves", "Learning curves"), ("pareto", "Metric and cost")):
            shown = [n for n in numbers if kind == "curves" or groups[n]["points"]]
            named = [(n, groups[n]["framework"]) for n in shown]
            entries = [(n, str(name), NAMES.get(name) or str(name)) for n, name in named]
            if entries:
                figures.append(LearningFigure(kind, f"{heading}, {title}", length, entries))
    axes = {axis for group in groups for axis in group["axes"]}
    costs = {
        cost for group in groups for point in group["points"] for cost in COSTS
        if point[cost] is not None
    }  # fmt: skip
    return LearningView(
        list(QUANTITIES.items()),
        [(axis, title) for axis, title in AXIS_TITLES.items() if axis in axes],
        [(cost, title) for cost, title in COST_TITLES.items() if cost in costs],
        figures,
        packed({"specs": learning_specs(variants), "groups": groups, "variants": list(variants)}),
    )
