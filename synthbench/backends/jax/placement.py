"""JAX's devices, and the platform that a program is being traced for."""

from __future__ import annotations

import jax


def cuda_devices() -> list[jax.Device]:
    """The CUDA devices that JAX finds; empty if its CUDA plug-in is not installed."""
    try:
        return jax.devices("cuda")
    except RuntimeError:
        return []


def find_device(device: str) -> jax.Device:
    """The JAX device for cpu, cuda or cuda:N."""
    if device == "cpu":
        return jax.devices("cpu")[0]
    return cuda_devices()[int(device.partition(":")[2] or 0)]


def platform() -> str:
    """The platform of the default device, or else of the first one: cpu, cuda or another.

    Code that runs on another device must trace inside `jax.default_device`.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        device = jax.devices()[0]
    name = device if isinstance(device, str) else device.platform
    return "cuda" if name == "gpu" else name


def compute_capability() -> tuple[int, int]:
    """What generation of GPU the program is being traced for, as (9, 0); (0, 0) on other devices.

    The default device, or else the first one.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None or isinstance(device, str):
        device = jax.devices(device)[0]
    found = str(getattr(device, "compute_capability", "")).split(".")
    return (int(found[0]), int(found[1])) if len(found) == 2 else (0, 0)
