"""The cells that a stored run was to measure, by its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from synthbench.errors import NotationError
from synthbench.suites.by_task import settings_for
from synthbench.suites.cell import Cell
from synthbench.suites.plan import every_cell
from synthbench.suites.settings import Settings


def planned_cells(
    content: Mapping[str, Any], task: str, device: str, baseline: str
) -> list[Cell] | None:
    """The cells of a task in the settings of a run, its A/A twins and impossible ones among them.

    `baseline` is in canonical notation. None where the settings cannot be read, as those of another
    version.
    """
    try:
        settings = Settings.model_validate_json(json.dumps(content))
        if task not in settings.axes.task:
            return []
        cells = list(every_cell("run.json", settings_for(settings, task), task, device))
    except (ValidationError, NotationError):
        return None
    if not settings.measure.has_twins:
        return cells
    return cells + [cell.changed(replica=1) for cell in cells if cell.variant == baseline]
