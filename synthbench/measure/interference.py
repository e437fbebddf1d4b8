"""What disturbed a stretch of time: other processes, the hypervisor, a clock held down."""

from __future__ import annotations

from contextlib import ExitStack

from synthbench.measure.cores import CoreMonitor
from synthbench.measure.environment import usable_cores
from synthbench.measure.gpu import GpuMonitor


class InterferenceMonitor:
    """Reads the cores and the device on entering and leaving; `warnings` tells what it found."""

    def __init__(self, device: str) -> None:
        self._parts: list[CoreMonitor | GpuMonitor] = [CoreMonitor(usable_cores())]
        if device != "cpu":
            self._parts.insert(0, GpuMonitor(device))
        self._stack = ExitStack()

    @property
    def warnings(self) -> list[str]:
        """A sentence for each disturbance, once the watch was left."""
        return [warning for part in self._parts for warning in part.warnings]

    def __enter__(self) -> InterferenceMonitor:
        for part in self._parts:
            self._stack.enter_context(part)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()
