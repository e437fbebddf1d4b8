"""Positions of the marks of a figure, computed from records and independent of text widths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from synthbench.report.data.grid import Cost
from synthbench.report.figures.series import Series

HEIGHT = 215  # of a panel, in pixels
CROSS = "\u00d7"  # marks the length at which memory ran out
LABEL_HEIGHT = 12  # smallest distance between labels, in pixels
MARGIN = 1.3  # factor of free space above the largest and below the smallest value
# Ticks, times powers of ten: each is finer than the one before it, and the last has two ticks at
# least between limits that are MARGIN above and below a value.
STEPS: tuple[Sequence[float], ...] = (
    (1, 2, 5),
    range(1, 10),
    [n / 2 for n in range(2, 20)],
    [n / 4 for n in range(4, 40)],
)


class Quantity(NamedTuple):
    """The quantity of a row of panels; `scale` converts it to the unit in the title."""

    cost: Cost
    title: str
    scale: float


def points(found: Sequence[Series], quantity: Quantity) -> list[dict[str, Any]]:
    """The points of all lines."""
    return [
        {"variant": one.variant, "length": point.length, "cost": point.cost * quantity.scale}
        for one in found
        for point in one.points
    ]


def bands(found: Sequence[Series], quantity: Quantity) -> list[dict[str, Any]]:
    """The ends of every interval; none with a single round."""
    return [
        {
            "variant": one.variant,
            "length": point.length,
            "low": point.low * quantity.scale,
            "high": point.high * quantity.scale,
        }
        for one in found
        for point in one.points
        if point.low is not None and point.high is not None
    ]


def labels(
    found: Sequence[Series], quantity: Quantity, limits: tuple[float, float]
) -> list[dict[str, Any]]:
    """The name at the end of each line, moved up or down until no two overlap."""
    ends = {one: one.points[-1] for one in found if one.points}
    labels: list[dict[str, Any]] = []
    for length in sorted({end.length for end in ends.values()}):
        here = [one for one, end in ends.items() if end.length == length]
        here.sort(key=lambda one: (ends[one].cost, one.variant))
        wanted = [_pixel(ends[one].cost * quantity.scale, limits) for one in here]
        labels += [
            {"variant": one.variant, "length": length, "y": _value(pixel, limits)}
            for one, pixel in zip(here, spread(wanted, LABEL_HEIGHT, 4, HEIGHT - 4), strict=True)
        ]
    return labels


def failures(found: Sequence[Series], limits: tuple[float, float]) -> list[dict[str, Any]]:
    """For each variant, a cross at the top at the first length that did not fit into memory."""
    marks: list[dict[str, Any]] = []
    for one in found:
        if one.out_of_memory is None:
            continue
        above = sum(mark["length"] == one.out_of_memory for mark in marks)
        y = _value(HEIGHT - LABEL_HEIGHT * (above + 0.7), limits)
        text = f"{one.variant} {CROSS}"
        marks.append({"variant": one.variant, "length": one.out_of_memory, "y": y, "text": text})
    return marks


def spread(wanted: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """Ascending positions at least `distance` apart, as close to the wanted ones as possible.

    Neighbours that are too close form a group around the mean of their wanted positions; a group
    that leaves [low, high] is moved back inside.
    """
    groups: list[tuple[list[float], float]] = []  # wanted positions, position of the first

    def placed(members: list[float]) -> tuple[list[float], float]:
        middle = sum(members) / len(members)
        length = distance * (len(members) - 1)
        first = max(low, min(middle - length / 2, high - length))
        return members, first

    for position in wanted:
        groups.append(placed([position]))
        while len(groups) > 1:
            (before, start), (after, first) = groups[-2:]
            if start + distance * len(before) <= first:
                break
            groups[-2:] = [placed([*before, *after])]
    return [start + distance * n for members, start in groups for n in range(len(members))]


def span(lengths: Sequence[int]) -> list[float]:
    """The ends of the x axis: the shortest and the longest length, or around a single one."""
    low, high = min(lengths), max(lengths)
    return [low, high] if low < high else [low / 2, high * 2]


def limits(found: Sequence[Series], quantity: Quantity) -> tuple[float, float]:
    """The ends of the y axis, shared by the frameworks: all values with free space around them."""
    costs = [
        end * quantity.scale
        for one in found
        for point in one.points
        for end in (point.low or point.cost, point.high or point.cost)
    ]
    if not costs:  # every cell ran out of memory
        return 1.0, 10.0
    crosses = [one.out_of_memory for one in found if one.out_of_memory]
    most = max((crosses.count(length) for length in crosses), default=0)
    low, high = min(costs) / MARGIN, max(costs) * MARGIN
    free = 1 - LABEL_HEIGHT * (most + 1) / HEIGHT if most else 1.0
    return low, low * (high / low) ** (1 / max(free, 0.4))


def ticks(low: float, high: float) -> list[float]:
    """Powers of ten within the limits; finer steps where these are close to each other."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = STEPS if math.log10(high / low) <= 2.5 else ((1,),)
    found = [
        [tick for power in powers for step in steps if low <= (tick := step * 10.0**power) <= high]
        for steps in choices
    ]
    return next((ticks for ticks in found if len(ticks) > 1), found[-1])


def _pixel(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return HEIGHT * math.log(value / low) / math.log(high / low)


def _value(pixel: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return float(low * (high / low) ** (pixel / HEIGHT))
