"""Every extension point: what `register`, entry points and --plugin accept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from synthbench import registry
from synthbench.mixers.catalog import COMPONENT_REGISTRY, MIXER_REGISTRY
from synthbench.registry import Registry
from synthbench.run.executors.catalog import EXECUTOR_REGISTRY
from synthbench.tasks.catalog import TASK_REGISTRY
from synthbench.tasks.data.catalog import DATA_SOURCE_REGISTRY

REGISTRIES: tuple[Registry[Any], ...] = (
    MIXER_REGISTRY,
    COMPONENT_REGISTRY,
    TASK_REGISTRY,
    EXECUTOR_REGISTRY,
    DATA_SOURCE_REGISTRY,
)


def register(cls: type[Any]) -> type[Any]:
    """Add a mixer, component, task, executor or data source, and return its class.

    The same class again, as after an edit in a notebook, replaces itself. Raises NotationError
    where the class does not fulfil the protocol of its kind, or its name is taken.
    """
    return registry.register(cls, REGISTRIES)


def load_plugin(module_name: str) -> list[type[Any]]:
    """Import a module (from the working directory too) and register every class it defines.

    Raises SynthbenchError if it cannot be imported or defines no extension.
    """
    return registry.load_plugin(module_name, REGISTRIES)


@contextmanager
def ignoring_installed_extensions() -> Iterator[None]:
    """Inside the block, no code of installed extensions is imported into this process."""
    for one in REGISTRIES:
        one.reads_entry_points = False
    try:
        yield
    finally:
        for one in REGISTRIES:
            one.reads_entry_points = True
