"""JAX's devices, by jax.devices(), and the platform that a program is being traced for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax

from synthbench.backends.base import DeviceInfo, Setting
from synthbench.backends.checks import require_listed
from synthbench.backends.sharing import device_names
from synthbench.devices import ACCELERATORS, HOST, device_kind, index_of, is_host
from synthbench.errors import UnsupportedError
from synthbench.mixers.initializers import usable_cores

# Kind -> JAX's names of its platform, depending on the plug-in.
PLATFORMS = {
    "cuda": ("cuda",),
    "tpu": ("tpu",),
    "xpu": ("oneapi", "xpu"),
    "mps": ("mps", "metal", "METAL", "mtl"),
}
SEVERAL_MAKERS = "gpu"  # how the devices of cuda and of other makers name their platform

ADVICE = {  # kind -> how JAX gets to see such a device
    "cuda": 'install its CUDA plug-in (pip install "jax[cuda13]") and an NVIDIA driver',
    "tpu": 'install its TPU plug-in (pip install "jax[tpu]") on a machine with TPUs',
    "xpu": "install a plug-in for Intel GPUs that knows this version, or use the framework torch",
    "mps": "install a plug-in for Metal that knows this version, or use the framework torch",
}


def devices() -> list[DeviceInfo]:
    """The CPU, and each accelerator that JAX finds."""
    default, cores = _kind_of_platform(jax.default_backend()), usable_cores()
    found = [DeviceInfo(HOST, f"{cores} threads", is_default=default not in ACCELERATORS)]
    for kind in ACCELERATORS:
        for index, device in enumerate(_found(kind)):
            name = f"{kind}:{index}"
            found.append(DeviceInfo(name, _describe(device), is_default=kind == default))
    return found


def require_device(device: str) -> None:
    """Raise FrameworkMissingError unless JAX finds the device."""
    require_listed(device, devices(), f"jax {jax.__version__}", ADVICE)


def find_device(device: str) -> jax.Device:
    """The JAX device of a name."""
    found = jax.devices(HOST) if is_host(device) else _found(device_kind(device).name)
    return found[index_of(device)]


def find_devices(setting: Setting) -> list[jax.Device]:
    """The devices of a setting, its own first; UnsupportedError if JAX finds fewer.

    Several on a CPU share its cores. They are made as JAX starts, so nothing may have used it.
    """
    if setting.devices == 1:
        return [find_device(setting.device)]
    on_host, kind = is_host(setting.device), device_kind(setting.device).name
    found = usable_cores() if on_host else len(_found(kind))
    names = device_names(setting, found, f"jax {jax.__version__}")
    if not on_host:
        return [find_device(name) for name in names]
    with suppress(RuntimeError):  # it has started
        jax.config.update("jax_num_cpu_devices", setting.devices)
    if len(made := jax.devices(HOST)) < setting.devices:
        raise UnsupportedError(
            f"JAX has started in this process with {len(made)} devices on the CPU, and "
            f"{setting.devices} are wanted; run the training as a cell, in a process of its own"
        )
    return made[: setting.devices]


def is_accelerator(device: jax.Device) -> bool:
    """Whether a device is another one than the CPU."""
    return bool(device.platform != HOST)


def free_memory(device: str) -> int | None:
    """Bytes that XLA's allocator can still allocate; None on a CPU, and where it does not say."""
    if is_host(device):
        return None
    statistics = _statistics(find_device(device))
    if "bytes_limit" not in statistics:
        return None
    return int(statistics["bytes_limit"] - statistics.get("bytes_in_use", 0))


def peak_bytes(device: jax.Device) -> int | None:
    """Peak of XLA's allocator in this process; None on a CPU, and without a counter."""
    if not is_accelerator(device):
        return None
    peak: int | None = _statistics(device).get("peak_bytes_in_use")
    return peak


def missing_counters(device: jax.Device) -> dict[str, str]:
    """Metric -> why JAX cannot measure it on this device; empty on a CPU."""
    if not is_accelerator(device):
        return {}
    version = jax.__version__
    found: dict[str, str] = {}
    if peak_bytes(device) is None:
        found["peak_bytes"] = f"jax {version} does not count the memory of {device.platform}"
    found["device_seconds"] = f"jax {version} has no events to time a step on the device with"
    return found


def platform() -> str:
    """The kind of the default device, or else of the first one: cpu, cuda or another.

    Code that runs on another device must trace inside `jax.default_device`.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        device = jax.devices()[0]
    return _kind_of_platform(device if isinstance(device, str) else device.platform)


def _kind_of_platform(name: str) -> str:
    """The kind of the devices of a platform; the platform's own name for one without."""
    if name == SEVERAL_MAKERS:
        return next((kind for kind in ACCELERATORS if _found(kind)), "cuda")
    return next((kind for kind, names in PLATFORMS.items() if name in names), name)


def _found(kind: str) -> list[jax.Device]:
    """The devices of a kind; empty without its plug-in."""
    for name in PLATFORMS[kind]:
        try:
            return jax.devices(name)
        except RuntimeError:
            continue
    return []


def _describe(device: jax.Device) -> str:
    """Its name, and the memory that JAX may use of it."""
    limit = _statistics(device).get("bytes_limit")
    own = "" if limit is None else f", {limit / 2**30:.0f} GiB for JAX"
    return f"{device.device_kind}{own}"


def _statistics(device: jax.Device) -> dict[str, Any]:
    """What the device's allocator counts; empty where it counts nothing."""
    try:
        return device.memory_stats() or {}
    except RuntimeError:  # a plug-in that has not implemented it
        return {}


def compute_capability() -> tuple[int, int]:
    """What generation of GPU the program is being traced for, as (9, 0); (0, 0) on other devices.

    The default device, or else the first one.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None or isinstance(device, str):
        device = jax.devices(device)[0]
    found = str(getattr(device, "compute_capability", "")).split(".")
    return (int(found[0]), int(found[1])) if len(found) == 2 else (0, 0)
