"""The points of the charts: one per cell that has a number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthbench.printable import one_line
from synthbench.report.data.grid import Grid, Key
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Value
from synthbench.report.figures.series import Point, series_of
from synthbench.report.page.run_data import NO_RATIO, RunData
from synthbench.report.screen.pareto import Point as Costs
from synthbench.report.screen.pareto import pareto_front

Values = dict[str, Any]
TIME, MEMORY, FLOPS = "median_seconds", "peak_bytes", "flops"


def chart_points(data: RunData) -> list[Values]:
    """Each cell of the task `cost` with its costs in the units of the tables; None: not known.

    `time_low` and so on: the ends of its band; None with a single round. `front`: whether it is on
    the Pareto front of time and memory.
    """
    grid = data.cost_grid
    costs = dict(_costs(grid))
    points: list[Values] = []
    for key, cell_id in grid.ids.items():
        if key.replica:
            continue
        one = data.ratios.get(cell_id, NO_RATIO)
        several = len(grid.rounds_of(cell_id)) > 1
        point = {
            "variant": one_line(key.variant),
            "framework": key.framework,
            "mode": key.mode,
            "setting": one_line(key.setting),
            "length": key.seq_len,
            **costs.get((key, "time"), _no_cost("time")),
            **costs.get((key, "memory"), _no_cost("memory")),
            "flops": _number(grid.known(key, FLOPS), FLOPS),
            "ratio": _number(one.ratio),
            "ratio_low": _number(one.low) if several else None,
            "ratio_high": _number(one.high) if several else None,
            "verdict": one.verdict if isinstance(one.verdict, str) else "",
        }
        points.append(point)
    return _with_front(points)


def _with_front(points: list[Values]) -> list[Values]:
    """The points with `front`: whether no variant of the run is better in time and memory."""
    groups: dict[tuple[Any, ...], list[Values]] = {}
    for point in points:
        place = tuple(point[name] for name in ("setting", "framework", "mode", "length"))
        if point["time"] is not None and point["memory"] is not None:
            groups.setdefault(place, []).append(point)
    for group in groups.values():
        costs = [Costs(point["variant"], point["time"], point["memory"]) for point in group]
        best = {one.variant for one in pareto_front(costs)}
        for point in group:
            point["front"] = point["variant"] in best
    return points


def _costs(grid: Grid) -> Iterator[tuple[tuple[Key, str], Values]]:
    """Key and name of a cost -> its value and band, as in the figure of `synthbench plot`."""
    for setting in grid.settings():
        variants = grid.variants(setting)
        for framework, mode in grid.pairs(setting):
            for series in series_of(grid, setting, variants, framework, mode, "seconds"):
                for point in series.points:
                    key = Key(setting, series.variant, framework, mode, point.length)
                    yield (key, "time"), _cost("time", point, metric_named(TIME).scale)
            for series in series_of(grid, setting, variants, framework, mode, "peak_bytes"):
                for point in series.points:
                    key = Key(setting, series.variant, framework, mode, point.length)
                    yield (key, "memory"), _cost("memory", point, metric_named(MEMORY).scale)


def _cost(name: str, point: Point, scale: float) -> Values:
    ends = {f"{name}_low": point.low, f"{name}_high": point.high}
    scaled = {end: None if value is None else value * scale for end, value in ends.items()}
    return {name: point.cost * scale, **scaled}


def _no_cost(name: str) -> Values:
    return {name: None, f"{name}_low": None, f"{name}_high": None}


def _number(value: Value, metric: str = "") -> float | None:
    """The value in its unit; None for a text and for what a log scale cannot show."""
    if isinstance(value, str) or not 0 < value < float("inf"):
        return None
    return float(value * metric_named(metric).scale) if metric else float(value)
