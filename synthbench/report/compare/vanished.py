"""Cells of the first run that the second run was to measure, and has no record of."""

from __future__ import annotations

from synthbench.report.compare.matching import Match, content_of
from synthbench.report.compare.side import Side
from synthbench.suites.cell import Cell
from synthbench.suites.planned import planned_cells
from synthbench.tasks import cost


def vanished_cells(first: Side, second: Side, match: Match) -> list[Cell]:
    """The cells of the first run that are missing in the second one, although it planned them.

    As where a framework could not be loaded, or the run was interrupted. Where its settings cannot
    be read, all that are missing: a gate that never closes would be worse than none.
    """
    matched = {own.id for own, _ in match.pairs}
    missing = [cell for cell in first.cells if cell.id not in matched]
    if not missing:
        return []
    info = second.run.info
    planned = planned_cells(info.settings, cost.Cost.name, info.device, second.baseline)
    if planned is None:
        return missing
    # A run on several devices has its cells on each of them, or on their kind.
    ignored = {*match.differing, "device"}
    contents = {content_of(cell, ignored) for cell in planned}
    return [cell for cell in missing if content_of(cell, ignored) in contents]
