"""PyTorch's devices, by torch.accelerator: the CPU, and the accelerator of this build.

PyTorch has at most one kind of accelerator at a time. Which counters it has depends on the kind and
on the version.
"""

from __future__ import annotations

import contextlib

import torch

from synthbench.backends.base import DeviceInfo, Setting
from synthbench.backends.checks import require_listed
from synthbench.backends.sharing import device_names
from synthbench.devices import HOST, KINDS, device_kind, is_host
from synthbench.mixers.initializers import usable_cores

PEAK = "allocated_bytes.all.peak"  # of torch.accelerator.memory_stats
WITHOUT_VALUES = "meta"  # the device of tensors that have a shape only, as of a step on a CPU

ADVICE = {  # kind -> how PyTorch gets to see such a device
    "xpu": "install PyTorch's build for Intel GPUs "
    "(pip install torch --index-url https://download.pytorch.org/whl/xpu) and Intel's driver",
    "mps": "PyTorch has it on a Mac with Apple silicon, in its own build for macOS",
    "tpu": "PyTorch itself runs on no TPU; use the framework jax",
}


def devices() -> list[DeviceInfo]:
    """The CPU, and each accelerator that PyTorch finds."""
    kind = _accelerator()
    found = [DeviceInfo(HOST, f"{torch.get_num_threads()} threads", is_default=kind is None)]
    if kind is not None:
        for index in range(torch.accelerator.device_count()):
            name = f"{kind}:{index}"
            found.append(DeviceInfo(name, _describe(kind, index), is_default=True))
    return found


def found_devices(device: str) -> int:
    """How many devices there are of the kind of one: on a CPU, usable cores."""
    if is_host(device):
        return usable_cores()
    kind = device_kind(device).name
    return torch.accelerator.device_count() if kind == _accelerator() else 0


def require_device(device: str) -> None:
    """Raise FrameworkMissingError unless PyTorch finds the device."""
    advice = {"cuda": _advice_for_cuda(), **ADVICE}
    require_listed(device, devices(), f"torch {torch.__version__}", advice)


def find_device(device: str) -> torch.device:
    """The PyTorch device of a name."""
    return torch.device(device)


def find_devices(setting: Setting) -> list[str]:
    """The devices of a setting by name, its own first; UnsupportedError if PyTorch finds fewer."""
    if setting.devices == 1:
        return [setting.device]
    return device_names(setting, found_devices(setting.device), f"torch {torch.__version__}")


def is_accelerator(device: torch.device) -> bool:
    """Whether a device is another one than the CPU."""
    return device.type not in (HOST, WITHOUT_VALUES)


def free_memory(device: str) -> int | None:
    """Bytes free on an accelerator; None on a CPU, and where the accelerator does not say."""
    if is_host(device):
        return None
    try:
        free, _ = torch.accelerator.get_memory_info(find_device(device))
    except RuntimeError:  # mps of some versions, integrated GPUs of Intel
        return None
    return free


def peak_bytes(device: torch.device) -> int | None:
    """Peak of the accelerator's allocator since the reset; None on a CPU, and without a counter."""
    if not is_accelerator(device):
        return None
    try:
        peak: int | None = torch.accelerator.memory_stats(device).get(PEAK)
    except RuntimeError:  # an allocator that counts nothing, as that of mps in some versions
        return None
    return peak


def missing_counters(device: torch.device) -> dict[str, str]:
    """Metric -> why PyTorch cannot measure it on this device; empty on a CPU."""
    if not is_accelerator(device):
        return {}
    version, kind = torch.__version__, device.type
    found: dict[str, str] = {}
    if peak_bytes(device) is None:
        found["peak_bytes"] = f"torch {version} does not count the memory of {kind}"
    if kind != "cuda":
        reason = f"torch {version} has nothing that keeps {kind} busy until a step is in its queue"
        found["device_seconds"] = reason
    return found


def synchronize(device: torch.device) -> None:
    """Block until an accelerator has done what is in its queues; does nothing on a CPU."""
    if is_accelerator(device):
        torch.accelerator.synchronize(device)


def reset_peak(device: torch.device) -> None:
    """Reset the peak of the accelerator's allocator, if it has one."""
    if is_accelerator(device):
        with contextlib.suppress(RuntimeError):  # as in `peak_bytes`
            torch.accelerator.reset_peak_memory_stats(device)


def _accelerator() -> str | None:
    """The kind of accelerator that is there; None without one, and for one without a name here."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return found.type if found is not None and found.type in KINDS else None


def _describe(kind: str, index: int) -> str:
    """Its name and memory, as far as PyTorch knows them."""
    properties = getattr(torch.get_device_module(kind), "get_device_properties", None)
    if properties is None:
        return KINDS[kind].meaning
    found = properties(index)
    memory = getattr(found, "total_memory", None)
    own = "" if memory is None else f", {memory / 2**30:.0f} GiB"
    return f"{found.name}{own}"


def _advice_for_cuda() -> str:
    build = torch.version.cuda
    if build is None:
        return "install a CUDA build of torch (pip install torch) and an NVIDIA driver"
    return f"this build is for CUDA {build}: check the driver with nvidia-smi"
