"""Every executor by name: the built-in ones in a literal dict, plug-ins as they are registered."""

from __future__ import annotations

from synthbench.run.executors.base import Executor
from synthbench.run.executors.local import Local

EXECUTORS: dict[str, type[Executor]] = {
    "local": Local,
}
