"""The Pareto front of time and memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Point(NamedTuple):
    """What a step of a variant costs."""

    variant: str
    seconds: float
    peak_bytes: float


def pareto_front(points: Iterable[Point]) -> list[Point]:
    """The points to which no other is better in time and memory, from the fastest on.

    A point is left out if another is at least as good in both and better in one. Equal points are
    on the front together.
    """
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.seconds, point.peak_bytes)):
        if not front or point.peak_bytes < front[-1].peak_bytes or point[1:] == front[-1][1:]:
            front.append(point)
    return front
