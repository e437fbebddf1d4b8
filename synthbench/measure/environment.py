"""The machine and the software of a run, for run.json; no framework is imported."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = (
    "synthbench", "torch", "jax", "jaxlib", "flax", "optax", "numpy", "scipy", "pandas", "fvcore",
)  # fmt: skip


def usable_cores() -> list[int]:
    """The cores this process may run on; numbered from 0 where the system cannot tell."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def read_environment() -> dict[str, Any]:
    """Platform, CPU, memory, load at this moment, versions, git state and NVIDIA devices."""
    return {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "memory_bytes": total_memory(),
        "load": list(os.getloadavg()),
        "versions": versions(),
        "git": git_state(),
        "nvidia": nvidia_devices(),
    }


def versions() -> dict[str, str | None]:
    """Installed version of each package that numbers depend on; None where it is absent."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def cpu_model() -> str:
    """The CPU's name as the system gives it."""
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def total_memory() -> int:
    """Bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int:
    """Bytes that could be allocated now without swapping."""
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return total_memory()


def git_state() -> dict[str, Any] | None:
    """Commit and dirtiness of the repository of the working directory; None where there is none."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def nvidia_devices() -> list[dict[str, Any]]:
    """Name, memory and driver of each NVIDIA device, where nvidia-ml-py is there to ask."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # absent package, library or driver: there is nothing to tell
        return []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return [
            {
                "name": nvml.nvmlDeviceGetName(handle),
                "memory_bytes": nvml.nvmlDeviceGetMemoryInfo(handle).total,
                "driver": nvml.nvmlSystemGetDriverVersion(),
            }
            for handle in handles
        ]
    finally:
        nvml.nvmlShutdown()


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
