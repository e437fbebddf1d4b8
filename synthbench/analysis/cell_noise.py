"""How much the time of a cell differs from round to round, estimated for many cells together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from synthbench.analysis.moderated_variance import Moderated, Variances, moderated_families
from synthbench.analysis.moments import moments_of
from synthbench.analysis.outlying_rounds import Rounds, set_aside, usual_spread
from synthbench.analysis.weighted_rounds import Weighted, usual_error, weighted

# Prior degrees of freedom of a cell's variance. Now and then a process is slower by some percent in
# all of its steps, and both rounds of a cell may be such: that is rarer in normal noise, and where
# cells seemed alike, every twentieth table had a false verdict.
MOST_ALIKE = 6.0
FEWEST_CELLS = 10  # of a group, to tell what a round did to all of them from what it did to one

G = TypeVar("G", bound=Hashable)  # a group: cells that are measured one after the other
C = TypeVar("C", bound=Hashable)  # a cell

Logs = Mapping[int, float]  # round -> log time


class CellNoise(NamedTuple):
    """The log times of a cell, without rounds that were set aside, and their variance.

    `within`: the mean's standard error that the errors within the rounds alone imply, times the
    root of the number of rounds; None without such errors.
    """

    rounds: Rounds
    between: Moderated
    within: float | None = None


def noise_of_cells(
    groups: Mapping[G, Mapping[C, Logs]],
    family_of: Callable[[G, C], Hashable],
    shares_rounds: bool = True,
    errors: Mapping[C, Logs] | None = None,
) -> dict[C, CellNoise]:
    """The variance of the log of each cell between rounds; without what all cells share.

    The log time is taken as the cell's own, plus that of its group's round, plus noise. The second
    is in both sides of a ratio within the group and cancels, so it is no part of the variance. Each
    variance is shrunk towards those of its family, as far as these agree (Smyth 2004, as in
    `comparison.estimate`). How far that is, all families say together (`shared_priors`), so that
    they should be those of one framework. A ratio has the noise of two cells, and all ratios of a
    group share the baseline's: so the noise of cells can be pooled, that of ratios is not
    independent.

    Ratios that were taken within a process each have a baseline of their own and can be pooled as
    they are: without `shares_rounds`, logs are of such ratios, and nothing is taken away. With the
    standard `errors` that they have within their rounds, rounds whose samples scatter count less
    (`weighted_rounds`).

    A round that is improbable among the others of its cell is set aside (`outlying_rounds`): a
    process that something slowed down would make the intervals of all cells wider.

    Only of cells with two rounds or more, in groups of FEWEST_CELLS or more.
    """
    families: dict[Hashable, dict[C, Rounds]] = {}
    before: dict[C, tuple[Logs, Logs]] = {}  # as measured, and what each round did to all cells
    for group, cells in groups.items():
        if len(cells) < FEWEST_CELLS:
            continue
        effects = round_effects(cells) if shares_rounds else {}
        free = {
            cell: {n: log - effects.get(n, 0.0) for n, log in logs.items()} if effects else logs
            for cell, logs in cells.items()
            if len(logs) > 1
        }
        spread = usual_spread(free.values())
        for cell, logs in free.items():
            families.setdefault(family_of(group, cell), {})[cell] = set_aside(logs, spread)
            before[cell] = cells[cell], effects
    found: dict[C, CellNoise] = {}
    weighed = [_weighed(own, errors) for own in families.values()]
    between = moderated_families([_variances(own.values()) for own in weighed], MOST_ALIKE)
    for cells_of_family, moderated in zip(weighed, between, strict=True):
        for (cell, own), one in zip(cells_of_family.items(), moderated, strict=True):
            measured, added = before[cell]
            if own.rounds.aside or errors is not None:
                measured = {n: log + added.get(n, 0.0) for n, log in own.rounds.logs.items()}
            of_round = one._replace(variance=one.variance * own.relative)
            within = None if errors is None else own.within
            found[cell] = CellNoise(own.rounds._replace(logs=measured), of_round, within)
    return found


def _weighed(cells: Mapping[C, Rounds], errors: Mapping[C, Logs] | None) -> dict[C, Weighted]:
    """The rounds of each cell with their weights; without errors, all have the same."""
    usual = 0.0 if errors is None else usual_error(errors[cell] for cell in cells)
    if errors is None or usual == 0:
        moments = moments_of([[*one.logs.values()] for one in cells.values()])
        return {  # all errors are 0, or none is asked for
            cell: Weighted(one, variance, 1.0)
            for (cell, one), (_, variance) in zip(cells.items(), moments, strict=True)
        }
    found = weighted([*cells.values()], [errors[cell] for cell in cells], usual)
    return dict(zip(cells, found, strict=True))


def _variances(cells: Collection[Weighted]) -> Variances:
    return Variances([one.variance for one in cells], [one.rounds.degrees for one in cells])


def round_effects(cells: Mapping[C, Logs]) -> dict[int, float]:
    """What each round added to the log times of all cells of a group: the median over cells.

    Only of rounds that most cells have. A later round of a few cells has no effect here, so that
    its own remains in their variances, which are then too large rather than too small.
    """
    counts: dict[int, int] = {}
    for logs in cells.values():
        for number in logs:
            counts[number] = counts.get(number, 0) + 1
    common = [number for number, count in sorted(counts.items()) if 2 * count > len(cells)]
    rows = [
        [logs[number] for number in common]
        for logs in cells.values()
        if all(number in logs for number in common)
    ]
    if len(common) < 2 or len(rows) < FEWEST_CELLS:
        return {}
    times = np.array(rows)
    medians = np.median(times - times.mean(axis=1, keepdims=True), axis=0)
    return dict(zip(common, medians.tolist(), strict=True))


def combined(sides: tuple[Moderated, ...]) -> Moderated:
    """The variance of a sum of independent parts, with the fewest degrees of freedom of a part.

    Welch and Satterthwaite's degrees would be more, up to their sum. But the variances were shrunk:
    the error of one that is truly larger does not average out with that of the other (in
    simulations twice to five times as many false verdicts as allowed).
    """
    return Moderated(sum(side.variance for side in sides), min(side.degrees for side in sides))
