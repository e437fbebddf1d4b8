"""Counters of the energy that a device has used: NVML's of a GPU, RAPL's of a processor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from synthbench.devices import device_kind, from_device, is_host
from synthbench.measure.gpu import handle_of, open_nvml, read_state
from synthbench.record import DeviceState

RAPL = Path("/sys/class/powercap")
PLATFORM = "psys"  # the name of a counter of the whole computer, its packages included


class EnergyCounter(Protocol):
    """Counts up while a device works; two readings bound what was used between them."""

    source: str  # for records

    def joules(self) -> float | None:
        """Joules since some fixed moment; None if the counter cannot be read now."""

    def state(self) -> DeviceState | None:
        """What the device reports of itself at this moment; None if it reports nothing."""


class NvmlCounter:
    """The energy of a whole GPU since its driver was loaded."""

    source = "NVML, the whole GPU"

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml, self.handle = nvml, handle

    def joules(self) -> float | None:
        """NVML counts millijoules."""
        try:
            return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) / 1e3
        except self.nvml.NVMLError:
            return None

    def state(self) -> DeviceState | None:
        """Clock rates, power and temperature."""
        return read_state(self.nvml, self.handle)


class SeveralCounters:
    """The energy of several GPUs together."""

    def __init__(self, counters: Sequence[NvmlCounter]) -> None:
        self.counters = counters
        self.source = f"NVML, {len(counters)} whole GPUs"

    def joules(self) -> float | None:
        """The sum; None if one of them cannot be read."""
        found = [counter.joules() for counter in self.counters]
        known = [joules for joules in found if joules is not None]
        return sum(known) if len(known) == len(found) else None

    def state(self) -> DeviceState | None:
        """None: each has a clock rate and a power of its own."""
        return None


class RaplCounter:
    """The energy of all processor packages, without their memory."""

    source = "RAPL, all packages"

    def __init__(self, root: Path | None = None) -> None:
        found = sorted((root or RAPL).glob("intel-rapl:*"))
        whole = [folder for folder in found if folder.name.count(":") == 1]
        self.packages = [folder for folder in whole if _name(folder) != PLATFORM]
        self._before: dict[Path, int] = {}
        self._wrapped = 0

    def joules(self) -> float | None:
        """The counters are in microjoules and begin again after `max_energy_range_uj`."""
        total = 0
        if not self.packages:
            return None
        for folder in self.packages:
            try:
                now = int((folder / "energy_uj").read_text())
                if now < self._before.get(folder, 0):
                    self._wrapped += int((folder / "max_energy_range_uj").read_text())
            except (OSError, ValueError):  # only root may read them on most systems
                return None
            self._before[folder] = now
            total += now
        return (total + self._wrapped) / 1e6

    def state(self) -> DeviceState | None:
        """None: a processor's clock rate differs between its cores."""
        return None


@contextlib.contextmanager
def energy_counter(device: str, devices: int = 1) -> Iterator[EnergyCounter | None]:
    """The counter of the devices from this one on; None where there is none that can be read.

    That of a GPU may have no joules: older ones do not count them.
    """
    if is_host(device):
        rapl = RaplCounter()
        yield rapl if rapl.joules() is not None else None
        return
    if not device_kind(device).has_nvml:
        yield None
        return
    with open_nvml() as nvml:
        names = [device] if devices == 1 else from_device(device, devices)
        handles = [] if nvml is None else [handle_of(nvml, name) for name in names]
        counters = [NvmlCounter(nvml, handle) for handle in handles if handle is not None]
        counter: EnergyCounter | None = None
        if len(counters) == len(names):
            counter = counters[0] if devices == 1 else SeveralCounters(counters)
        yield counter  # also where it has no joules: a GPU then still tells its state


def _name(folder: Path) -> str:
    """What a counter counts, as `package-0`; empty where the system does not say."""
    with contextlib.suppress(OSError):
        return (folder / "name").read_text().strip()
    return ""


def why_no_energy(device: str) -> str:
    """Why `energy_counter` gives none for a device, or none that answers."""
    if is_host(device):
        return "RAPL has no counter that this user can read"
    kind = device_kind(device)
    if kind.has_nvml:
        return "NVML is not there, or does not count the energy of this device"
    return f"no counter of the energy of {kind.name} is known"
