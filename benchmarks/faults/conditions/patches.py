"""Plug-ins that change the process they are loaded in: the runner, each host, and so each child."""

from __future__ import annotations

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


def write_plugin(folder: Path, text: str) -> list[str]:
    """Write a plug-in into a folder; the options that load it."""
    (folder / "patch_of_process.py").write_text(text)
    return ["--plugin", "patch_of_process"]
