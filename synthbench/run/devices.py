"""The devices that each framework sees, found in child processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthbench.backends.base import DeviceInfo
from synthbench.errors import FrameworkMissingError
from synthbench.run.host_client import Host
from synthbench.suites.plan import FRAMEWORKS, device_kind


def device_report(
    frameworks: Iterable[str] = FRAMEWORKS, plugins: Sequence[str] = ()
) -> dict[str, list[DeviceInfo] | str]:
    """Framework -> the devices it sees, or why it cannot be used."""
    hosts = {framework: Host(framework, plugins=plugins) for framework in frameworks}
    report: dict[str, list[DeviceInfo] | str] = {}
    try:
        for host in hosts.values():
            host.launch()  # all import at the same time
        for framework, host in hosts.items():
            try:
                report[framework] = host.devices()
            except FrameworkMissingError as error:
                report[framework] = str(error)
    finally:
        for host in hosts.values():
            host.stop()
    return report


def resolve_device(
    device: str, frameworks: Iterable[str] = FRAMEWORKS, plugins: Sequence[str] = ()
) -> str:
    """`auto` becomes cuda if any framework sees a GPU, else cpu; other devices stay as they are.

    Raises NotationError for anything that is not a device.
    """
    if device != "auto":
        device_kind(device)
        return device
    report = device_report(frameworks, plugins)
    seen = [info.name for found in report.values() if not isinstance(found, str) for info in found]
    return "cuda" if any(name.startswith("cuda") for name in seen) else "cpu"
