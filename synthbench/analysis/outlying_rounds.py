"""Rounds in which a cell took a time that is improbable among its other rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from synthbench.analysis.moderated_variance import t_quantile

FEWEST_ROUNDS = 4
SHARE_ALIKE = 3 / 4  # of a cell's rounds, at least, before another is set aside
# In standard deviations of the usual process from the middle round: Hampel's identifier, with a
# scale from all cells instead of four rounds (Davies and Gather 1993, doi:10.2307/2290763).
FURTHEST = 3.0
# That a cell's other rounds have no such time either: the cell may be noisier than others.
CONFIDENCE = 0.99
LEAST = 0.01  # log time; what differs by less needs no explanation
NORMAL_MEDIAN = 0.6744897501960817  # of the absolute value of a standard normal


class Rounds(NamedTuple):
    """The log time of each round, and which rounds were set aside.

    The mean of `logs` is that of the other rounds, and their variance over their number is the
    square of that mean's standard error: what was set aside is where the mean is, and the others
    are further from it than they were.
    """

    logs: Mapping[int, float]
    aside: frozenset[int] = frozenset()

    @property
    def degrees(self) -> int:
        """Of freedom, of their variance."""
        return len(self.logs) - len(self.aside) - 1


def usual_spread(cells: Iterable[Mapping[int, float]]) -> float:
    """The standard deviation of a log time between rounds, from the median difference of two.

    Up to a quarter of all processes may be outliers without changing it much. 0.0 without a cell
    of two rounds.
    """
    alike: dict[int, list[list[float]]] = {}  # number of rounds -> the logs of each cell
    for logs in cells:
        alike.setdefault(len(logs), []).append(list(logs.values()))
    differences = [
        np.abs(np.subtract(*(times[:, side] for side in np.triu_indices(rounds, 1)))).ravel()
        for rounds, times in ((rounds, np.array(rows)) for rounds, rows in alike.items())
        if rounds > 1
    ]
    if not differences:
        return 0.0
    return float(np.median(np.concatenate(differences))) / (NORMAL_MEDIAN * math.sqrt(2))


def set_aside(logs: Mapping[int, float], spread: float) -> Rounds:
    """The rounds of a cell without those that are far from the others, in either direction.

    Far: by more than FURTHEST times the `spread` of the usual process, and by more than the other
    rounds of the cell let expect. None is set aside of fewer than FEWEST_ROUNDS, or unless
    SHARE_ALIKE of them agree: of two rounds that differ, nobody can say which is right.
    """
    far = max(FURTHEST * spread, LEAST)
    number = len(logs)
    if number < FEWEST_ROUNDS or max(logs.values()) - min(logs.values()) <= far:
        return Rounds(logs)
    middle = median(logs.values())
    alike = [log for log in logs.values() if abs(log - middle) <= far]
    outside = {number: log for number, log in logs.items() if abs(log - middle) > far}
    kept = len(alike)
    if not outside or kept < SHARE_ALIKE * number:
        return Rounds(logs)
    mean = fmean(alike)
    squares = math.fsum((log - mean) ** 2 for log in alike)
    error = math.sqrt(squares / (kept - 1) * (1 + 1 / kept))  # of a prediction of one more round
    least = t_quantile(kept - 1, (1 + CONFIDENCE) / 2) * error
    if any(abs(log - mean) <= least for log in outside.values()):
        return Rounds(logs)
    wanted = number * (number - 1) * _squared_error(logs, alike)  # the squares of what is returned
    wider = math.sqrt(wanted / squares) if squares else 1.0
    made = {
        each: mean if each in outside else mean + wider * (log - mean) for each, log in logs.items()
    }
    return Rounds(made, frozenset(outside))


def _squared_error(logs: Mapping[int, float], alike: list[float]) -> float:
    """Of the mean of those that are alike, as of a trimmed mean, from the winsorized rounds.

    Tukey and McLaughlin 1963 (Sankhya A 25:331).
    """
    low, high = min(alike), max(alike)
    winsorized = [min(max(log, low), high) for log in logs.values()]
    mean = fmean(winsorized)
    squares = math.fsum((log - mean) ** 2 for log in winsorized)
    return squares / (len(alike) * (len(alike) - 1))
