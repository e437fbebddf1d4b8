"""Versions, the driver, both frameworks in forked children, and what JAX's allocator may use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.gpu_check.finding import ABSENT, Finding, Found, Settings, tried
from synthbench.measure.environment import read_environment
from synthbench.measure.gpu import GpuMonitor, handle_of, open_nvml
from synthbench.run.host_client import Host

STEP = "machine"


def run(settings: Settings) -> Iterator[Finding]:
    """What there is; a host forks, and its child starts CUDA."""
    environment = read_environment()
    versions = environment["versions"]
    said = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    yield Finding(STEP, "versions", figure=f"Python {environment['python']}, {said}")
    for device in environment["nvidia"]:
        told = ", ".join(f"{name} {value}" for name, value in device.items() if value is not None)
        yield Finding(STEP, "driver", figure=told)
    if not environment["nvidia"]:
        yield Finding(STEP, "driver", ABSENT, reason="NVML sees no device")
    if settings.is_cuda:
        yield tried(STEP, "NVML finds the device of CUDA", partial(nvml_device, settings.device))
        yield tried(STEP, "clock and processes of the device", partial(watched, settings.device))
    for framework in settings.frameworks:
        yield tried(STEP, f"{framework} in a forked child", partial(forked, framework, settings))


def nvml_device(device: str) -> Found:
    """The handle that warnings about clocks and processes are read from."""
    with open_nvml() as nvml:
        if nvml is None:
            return False, "NVML cannot be opened"
        handle = handle_of(nvml, device)
        return handle is not None, "" if handle is None else str(nvml.nvmlDeviceGetUUID(handle))


def watched(device: str) -> Found:
    """What a cell would warn of at this moment."""
    with GpuMonitor(device) as watch:
        pass
    return None, "; ".join(watch.warnings) or "nothing to warn of"


def forked(framework: str, settings: Settings) -> Found:
    """The devices that a child of a host sees, and the memory that it may use."""
    with Host(framework, device=settings.device) as host:
        seen = {device.name: device.description for device in host.devices()}
        free = host.call(f"{__name__}:free_memory", {"framework": framework, **on(settings)})
    wanted = "cpu" if not settings.is_cuda else f"cuda:{settings.device.partition(':')[2] or 0}"
    figure = "; ".join(f"{name}: {described}" for name, described in seen.items())
    memory = "" if free is None else f"; {free / 2**30:.1f} GiB free"
    return wanted in seen, figure + memory


def on(settings: Settings) -> dict[str, str]:
    """The device, as a keyword."""
    return {"device": settings.device}


def free_memory(framework: str, device: str) -> int | None:
    """Called in the child: the bytes that the framework may still use on the device."""
    from synthbench.api import backend_of

    return backend_of(framework).free_memory(device)
