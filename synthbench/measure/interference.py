"""What disturbed a measurement: other processes, the hypervisor, a reduced clock rate."""

from __future__ import annotations

from contextlib import ExitStack

from synthbench.devices import device_kind, from_device
from synthbench.measure.cores import CoreMonitor
from synthbench.measure.environment import usable_cores
from synthbench.measure.gpu import GpuMonitor


class InterferenceMonitor:
    """A context manager that watches the cores, and the devices from this one on."""

    def __init__(self, device: str, devices: int = 1) -> None:
        self._parts: list[CoreMonitor | GpuMonitor] = [CoreMonitor(usable_cores())]
        if device_kind(device).has_nvml:
            names = [device] if devices == 1 else from_device(device, devices)
            self._parts = [*map(GpuMonitor, names), *self._parts]
        self._stack = ExitStack()

    @property
    def warnings(self) -> list[str]:
        """One sentence per disturbance, available after exit."""
        return [warning for part in self._parts for warning in part.warnings]

    def __enter__(self) -> InterferenceMonitor:
        for part in self._parts:
            self._stack.enter_context(part)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()
