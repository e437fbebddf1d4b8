"""The devices that each framework sees, found in child processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthbench.backends.base import DeviceInfo
from synthbench.devices import AUTO, HOST, device_kind, is_host
from synthbench.errors import FrameworkMissingError
from synthbench.run.host_client import Host
from synthbench.suites.plan import FRAMEWORKS


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
    """`auto` becomes the first accelerator that a framework prefers, else cpu; others stay.

    Raises NotationError for anything that is not a device.
    """
    if device != AUTO:
        device_kind(device, auto=True)
        return device
    for found in device_report(frameworks, plugins).values():
        if not isinstance(found, str):
            preferred = [info.name for info in found if info.is_default and not is_host(info.name)]
            if preferred:
                return device_kind(preferred[0]).name
    return HOST
