"""Plug-ins that change the process they are loaded in: each host, and so each child."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HEAD = """\
import importlib
import sys
from dataclasses import dataclass
from typing import ClassVar
import synthbench


@dataclass(frozen=True)
class Patched(synthbench.Mixer):
    name: ClassVar[str] = "patched"

    def parameters(self, sizes):
        return {}

    def torch(self, sizes):
        return lambda p, x, padding_mask, causal: x


"""
CLOCK = (
    HEAD
    + """
import datetime
import time

BEGUN, COUNTED = time.time(), time.monotonic()
SPEED = 1000  # seconds that the clock goes back per second


def back():
    return BEGUN - SPEED * (time.monotonic() - COUNTED)


class Backwards(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(back(), tz)


time.time = back
time.time_ns = lambda: int(back() * 1e9)
for name in ("run.cell_runner", "run.resume", "run.runner", "measure.environment", "cli.run"):
    module = importlib.import_module("synthbench." + name)
    if hasattr(module, "datetime"):
        module.datetime = Backwards
"""
)
NO_FILE = (
    HEAD
    + """
from pathlib import Path

module = importlib.import_module("synthbench.measure.memory")
assert hasattr(module, "{name}")
module.{name} = Path("/proc/self/no_such_file")
"""
)


MODULE = "patch_of_process"


def write_plugin(folder: Path, text: str) -> list[str]:
    """Write a plug-in into a folder; the options that load it."""
    (folder / f"{MODULE}.py").write_text(text)
    return ["--plugin", MODULE]


def patch_this_process(folder: Path) -> None:
    """Load the plug-in here too: a runner leaves that to its hosts."""
    sys.path.append(str(folder))
    importlib.import_module(MODULE)
