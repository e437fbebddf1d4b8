"""The data of figures about trainings: curves with bands, and the points of Pareto plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from synthbench.analysis.learning import AXES, NO_RESULT, Axis, Curve
from synthbench.record import Record, latest
from synthbench.report.data.trainings import LOSS, Group
from synthbench.suites.cell import Cell
from synthbench.tasks.cost import Cost

Values = dict[str, Any]
COSTS = ("step_seconds", "peak_bytes", "step_flops")


class Lines(NamedTuple):
    """The lines of one quantity: means over seeds with bands, and single trainings that failed."""

    means: list[Values]  # variant, one cost per axis, value, low, high
    failed: list[Values]  # variant, seed, one cost per axis, value
    ends: list[Values]  # the last point of each failed training


def lines_of(group: Group, variants: Sequence[str], quantity: str) -> Lines:
    """The lines of a metric or of the held-out LOSS, in the unit of the metric.

    A band is the range over the seeds. A training that failed is a line of its own: in the mean,
    its end would look like progress.
    """
    scale = 1.0 if quantity == LOSS else group.declared.scale
    found = Lines([], [], [])
    for variant in variants:
        curves = group.curves_of(quantity).get(variant, {})
        complete = [one for one in curves.values() if one.end not in NO_RESULT]
        found.means.extend({"variant": variant} | point for point in _means(complete, scale))
        for seed, one in curves.items():
            if one.end in NO_RESULT and one.values:
                points = [
                    {"variant": variant, "seed": seed, "value": value * scale} | _costs([one], at)
                    for at, value in enumerate(one.values)
                ]
                found.failed.extend(points)
                found.ends.append(points[-1])
    return found


def _means(curves: Sequence[Curve], scale: float) -> list[Values]:
    """Mean and range at each evaluation that all of these trainings have."""
    if not curves:
        return []
    count = min(len(one.values) for one in curves)
    found: list[Values] = []
    for at in range(count):
        values = [one.values[at] * scale for one in curves]
        ends = {"low": min(values), "high": max(values)}
        found.append({"value": float(np.mean(values))} | ends | _costs(curves, at))
    return found


def _costs(curves: Sequence[Curve], at: int) -> Values:
    """The mean cost of an evaluation on each axis; None where it is not known."""
    return {axis: _mean([getattr(one, axis)[at : at + 1] for one in curves]) for axis in AXES}


def _mean(values: Sequence[Sequence[float]]) -> float | None:
    known = [value for one in values for value in one]
    return float(np.mean(known)) if len(known) == len(values) else None


def has_axis(group: Group, axis: Axis) -> bool:
    """Whether any training of a group has a cost on an axis."""
    return any(getattr(c, axis) for seeds in group.curves.values() for c in seeds.values())


def pareto_points(group: Group, variants: Sequence[str], records: Iterable[Record]) -> list[Values]:
    """The final metric of each variant with what a step costs; `front`: the costs in which no other
    is as good for less.

    Memory is that of the training, else of a cost record of the same model; None where neither is
    known. A variant without a result is left out.
    """
    counted = latest(records)
    points: list[Values] = []
    for variant in variants:
        finals = [value * group.declared.scale for value in group.final_values(variant).values()]
        if not finals:
            continue
        trained = [one.record for one in group.variants[variant].values()]
        ends = [one for one in group.curves[variant].values() if one.end not in NO_RESULT]
        points.append(
            {
                "variant": variant,
                "value": float(np.mean(finals)),
                "low": min(finals),
                "high": max(finals),
                "step_seconds": _mean([_per_step(one, "seconds") for one in ends]),
                "step_flops": _mean([_per_step(one, "flops") for one in ends]),
                "peak_bytes": _peak(trained, counted),
            }
        )
    sign = -1 if group.better == "lower" else 1
    for point in points:
        point["front"] = [
            cost
            for cost in COSTS
            if point[cost] is not None and group.better is not None
            and not any(_is_better(other, point, cost, sign) for other in points)
        ]  # fmt: skip
    return points


def _is_better(other: Values, point: Values, cost: str, sign: int) -> bool:
    """Whether another is at least as good in metric and cost, and better in one of them."""
    if other[cost] is None:
        return False
    gain, saved = sign * (other["value"] - point["value"]), point[cost] - other[cost]
    return bool(gain >= 0 and saved >= 0 and (gain > 0 or saved > 0))


def _per_step(curve: Curve, axis: Axis) -> Sequence[float]:
    total, steps = curve.total(axis), curve.total("steps")
    return [total / steps] if total is not None and steps else []


def _peak(trained: Sequence[Record], records: Sequence[Record]) -> float | None:
    """The largest peak of these trainings, else of train steps in cost records alike."""
    own = _peaks(trained)
    if not own and trained:
        wanted = _shape(trained[0].cell)
        own = _peaks(
            one
            for one in records
            if one.cell.task == Cost.name and one.outcome == "ok" and _shape(one.cell) == wanted
        )
    return max(own, default=None)


def _peaks(records: Iterable[Record]) -> list[float]:
    memories = [one.measurements.memory for one in records]
    return [float(m.peak) for m in memories if m is not None and m.peak is not None]


def _shape(cell: Cell) -> tuple[Any, ...]:
    """What the memory of a step depends on."""
    return (
        cell.variant, cell.framework, cell.mode, cell.seq_len, cell.batch, cell.model, cell.dtype,
        cell.device, cell.form, cell.compile,
    )  # fmt: skip
