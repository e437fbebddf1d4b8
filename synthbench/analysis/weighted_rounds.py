"""Rounds of a cell whose samples scatter more, which tell less of the cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synthbench.analysis.outlying_rounds import Rounds

# Of the usual error. What disturbs a process makes its samples scatter; that a few samples agree
# may be chance, and is no reason to take a round for more than twice as certain.
LEAST_ERROR = 0.5


class Weighted(NamedTuple):
    """The rounds of a cell, moved so that their plain mean is their weighted mean.

    `variance`: of a round of the usual error. `relative`: times such a variance, over the number of
    rounds, it is the square of the mean's standard error. `within`: the mean's standard error
    that the errors within the rounds alone imply, times the root of the number of rounds.
    """

    rounds: Rounds
    variance: float
    relative: float
    within: float = 0.0


def usual_error(errors: Iterable[Mapping[int, float]]) -> float:
    """The median of the errors of all rounds of all cells; 0.0 if there are none above 0."""
    found = [one for rounds in errors for one in rounds.values() if 0 < one < math.inf]
    return float(np.median(found)) if found else 0.0


def weighted(
    cells: Sequence[Rounds], errors: Sequence[Mapping[int, float]], usual: float
) -> list[Weighted]:
    """Weigh each round of each cell by the inverse of its variance, up to a factor of the cell.

    `errors`: the standard errors within the rounds. The variance of a round is taken to be as its
    error: processes whose samples have four times the `usual` error differ by twice as much. The
    factor is estimated from the squares of what the rounds differ by, as in weighted least squares.
    Where rounds of a cell were set aside, the others have equal weights.
    """
    found: dict[int, Weighted] = {}
    alike: dict[int, list[int]] = {}  # number of rounds -> positions of cells
    for at, rounds in enumerate(cells):
        alike.setdefault(len(rounds.logs), []).append(at)
    for positions in alike.values():
        logs = np.array([[*cells[at].logs.values()] for at in positions])
        relative = np.array([_relative(cells[at], errors[at], usual) for at in positions])
        weights = 1 / relative
        total = weights.sum(axis=1)
        means = (weights * logs).sum(axis=1) / total
        squares = (weights * (logs - means[:, None]) ** 2).sum(axis=1)
        moved = logs + (means - logs.mean(axis=1))[:, None]
        within = np.array([_within(cells[at], errors[at], usual) for at in positions])
        kept = np.array([[n not in cells[at].aside for n in cells[at].logs] for at in positions])
        share = weights * kept / (weights * kept).sum(axis=1, keepdims=True)
        own_error = np.sqrt(logs.shape[1] * (share**2 * within**2).sum(axis=1))
        for at, own, square, weight, error in zip(
            positions, moved, squares, total, own_error, strict=True
        ):
            rounds = cells[at]
            placed = dict(zip(rounds.logs, own.tolist(), strict=True))
            found[at] = Weighted(
                rounds._replace(logs=placed),
                float(square) / (len(placed) - 1),  # also where rounds are set aside: see Rounds
                len(placed) / float(weight),
                float(error),
            )
    return [found[at] for at in range(len(cells))]


def _within(rounds: Rounds, errors: Mapping[int, float], usual: float) -> NDArray[np.float64]:
    """The standard error within each round, the usual one where it is not known."""
    own = np.array([errors[number] for number in rounds.logs])
    return np.where(np.isfinite(own), own, usual)


def _relative(rounds: Rounds, errors: Mapping[int, float], usual: float) -> NDArray[np.float64]:
    """The variance of each round of a cell over that of a round of the usual error."""
    own = np.array([errors[number] for number in rounds.logs]) / usual
    own = np.maximum(np.where(np.isfinite(own), own, 1.0), LEAST_ERROR)
    if rounds.aside:
        kept = [number not in rounds.aside for number in rounds.logs]
        own[:] = math.exp(float(np.mean(np.log(own[kept]))))
    return own
