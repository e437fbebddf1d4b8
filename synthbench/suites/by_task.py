"""The settings of one task of a suite: those of the suite with what `by_task` replaces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from synthbench.errors import NotationError, UnknownNameError
from synthbench.models.presets import PRESETS
from synthbench.suites.settings import Settings
from synthbench.suites.validation import describe

SHARED_AXES = ("variant", "framework", "task")  # of all tasks of a suite


def settings_for(settings: Settings, task: str) -> Settings:
    """The settings of a task.

    Raises NotationError for a section that replaces what it may not, or by something wrong.
    """
    section = settings.by_task.get(task)
    if section is None:
        return settings
    if shared := [name for name in SHARED_AXES if name in section.axes]:
        raise NotationError(
            f"by_task.{task}.axes.{shared[0]}: all tasks of a suite share "
            f"{', '.join(SHARED_AXES)}; give it in axes"
        )
    if section.model and settings.models:
        raise NotationError(
            f"by_task.{task}.model: the suite has several models; give model instead of models"
        )
    content = settings.model_dump(mode="json")
    changed = content | {
        "axes": content["axes"] | section.axes,
        "model": content["model"] | preset_of(task, section.model) | section.model,
        "by_task": {},
    }
    try:
        return Settings.model_validate_json(json.dumps(changed, default=str))
    except ValidationError as error:
        raise NotationError(describe(error.errors()[0], within=f"by_task.{task}.")) from error


def with_axes(settings: Settings, replaced: Mapping[str, tuple[Any, ...]]) -> Settings:
    """The settings with these values of axes for every task, whatever the sections say."""
    by_task = {
        task: section.model_copy(
            update={"axes": {n: values for n, values in section.axes.items() if n not in replaced}}
        )
        for task, section in settings.by_task.items()
    }
    axes = settings.axes.model_copy(update=replaced)
    return settings.model_copy(update={"axes": axes, "by_task": by_task})


def why_empty(settings: Settings, task: str) -> str:
    """Why a task has no cells: `tokens_at_most` leaves all of them out, named where it is given."""
    section = settings.by_task.get(task)
    is_own = section is not None and "tokens_at_most" in section.axes
    where = f"by_task.{task}.axes" if is_own else "axes"
    most = settings_for(settings, task).axes.tokens_at_most
    return (
        f"{where}.tokens_at_most: every combination of task {task} has more than {most} tokens "
        "(seq_len times batch)"
    )


def preset_of(task: str, model: dict[str, Any]) -> dict[str, Any]:
    """The keys of the preset that a section names; empty without one."""
    name = model.get("preset")
    if name is None:
        return {}
    if name not in PRESETS:
        raise NotationError(
            f"by_task.{task}.model.preset: {UnknownNameError('preset', name, PRESETS)}"
        )
    return PRESETS[name].model


def check_sections(settings: Settings, source: str) -> None:
    """Raise NotationError, with the file, for what is wrong below `by_task`."""
    for task in settings.by_task:
        try:
            if task not in settings.axes.task:
                unknown = UnknownNameError("task of this suite", task, settings.axes.task)
                raise NotationError(f"by_task.{task}: {unknown}")
            settings_for(settings, task)
        except NotationError as error:
            raise NotationError(f"{source}: {error}") from error
