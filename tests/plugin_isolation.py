"""The registries without plug-ins, and as they were before afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from synthbench.run.extensions import REGISTRIES


@contextmanager
def isolated_plugins() -> Iterator[None]:
    """Inside the block, no plug-in is registered and no installed package is asked for one."""
    before = [(r, r._plugins, r._entry_points_read) for r in REGISTRIES]
    for registry in REGISTRIES:
        registry._plugins, registry._entry_points_read = {}, True
    try:
        yield
    finally:
        for registry, plugins, entry_points_read in before:
            registry._plugins = plugins
            registry._entry_points_read = entry_points_read
