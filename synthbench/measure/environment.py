"""The hardware and software of a run, for run.json; imports no framework."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from synthbench.backends.base import BACKENDS, Backend
from synthbench.devices import is_host
from synthbench.measure.gpu import nvidia_devices
from synthbench.measure.source import source_digest

PACKAGES = (
    "synthbench", "torch", "triton", "jax", "jaxlib", "flax", "optax", "ml_dtypes", "opt_einsum",
    "numpy", "scipy", "pandas", "fvcore",
)  # fmt: skip
# All installed packages with kernels and device plug-ins.
PREFIXES = (
    "nvidia-", "jax-cuda", "jax_cuda", "jax-rocm", "jax-mps", "jax-metal", "libtpu", "mkl",
    "intel-", "pytorch-triton",
)  # fmt: skip
VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS", "JAX_PLATFORMS",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_TF32_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF", "TORCH_CUDNN_SDPA_DEPRIORITIZED", "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "LD_PRELOAD", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY", "SYNTHBENCH_CEILING_SECONDS",
)  # fmt: skip
CPUS = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
ROOT = Path(__file__).resolve().parents[2]  # of a checkout, or of the installed packages


def usable_cores() -> list[int]:
    """The cores this process may use; all cores if the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def is_virtual() -> bool:
    """Whether a hypervisor gives this machine its cores, as far as the processor says so."""
    return " hypervisor" in (_read("/proc/cpuinfo") or "")


def read_environment(threads: int | None = None) -> dict[str, Any]:
    """Platform, CPU, memory, load at this moment, versions, git state and NVIDIA devices.

    `threads`: cells are pinned to this many of the first cores; None: to all of them.
    """
    cores = usable_cores()
    return {
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "cores": cores,
        "pinned_to": cores[:threads],
        "cpu_count": os.cpu_count(),
        "cpu_quota": _read("/sys/fs/cgroup/cpu.max"),
        "smt": _read(CPUS / "smt/active"),
        "virtual": is_virtual(),
        "governor": _read(CPUS / "cpu0/cpufreq/scaling_governor"),
        "megahertz_max": _megahertz(CPUS / "cpu0/cpufreq/cpuinfo_max_freq"),
        "no_turbo": _read(CPUS / "intel_pstate/no_turbo"),
        "memory_bytes": total_memory(),
        "memory_available_bytes": available_memory(),
        "load": list(os.getloadavg()),
        "versions": versions(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "lock_sha256": lock_hash(),
        "git": git_state(),
        "code_sha256": source_digest(),
        "nvidia": nvidia_devices(),
    }


def machine_id(environment: dict[str, Any]) -> str:
    """A stable name for this machine that does not reveal its host name.

    The CPU's name, the cores, and six hex digits of a hash that also covers the memory, the GPUs
    and the host name, so that two nodes of the same kind differ. Places of one machine that measure
    at the same time (`place`, as cuda:1 or slot 1 of 2) are machines of their own.
    """
    nvidia = [device.get("name") for device in environment.get("nvidia") or []]
    cores = len(environment.get("cores") or [])
    facts = [environment.get(name) for name in ("cpu", "cpu_count", "memory_bytes")]
    digest = hashlib.sha256(repr([*facts, nvidia, platform.node()]).encode()).hexdigest()
    cpu = re.sub(r"[^a-z0-9]+", "-", str(environment.get("cpu") or "cpu").lower()).strip("-")
    place = re.sub(r"[^a-z0-9]+", "-", str(environment.get("place") or ""))
    return f"{cpu[:24].strip('-')}-{cores}-{digest[:6]}{place and f'-{place}'}"


def machine_kind(environment: dict[str, Any]) -> str:
    """What machines whose times can be compared have in common: the CPU, cores, accelerators."""
    seen = environment.get("frameworks") or {}
    accelerators = {
        str(description)
        for devices in seen.values()
        for name, description in devices.items()
        if not is_host(name)
    }
    cores = len(environment.get("cores") or [])
    names = [str(environment.get("cpu") or "unknown"), f"{cores} cores", *sorted(accelerators)]
    return re.sub(r"[^a-z0-9.]+", "-", " ".join(names).lower()).strip("-")


def versions() -> dict[str, str | None]:
    """The installed version of each package that affects numbers; None if not installed."""
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"] or ""
        if name.lower().startswith(PREFIXES):
            found[name] = distribution.version
    return dict(sorted(found.items()))


def framework_numerics(framework: str) -> dict[str, Any]:
    """How a framework computes in this process: threads, matmul precision, TF32, its build."""
    return cast(Backend, importlib.import_module(BACKENDS[framework])).numerics()


def lock_hash(root: Path = ROOT) -> str | None:
    """SHA-256 of requirements.lock in the checkout; None if there is none."""
    try:
        return hashlib.sha256((root / "requirements.lock").read_bytes()).hexdigest()
    except OSError:
        return None


def cpu_model() -> str:
    """The name of the CPU."""
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def total_memory() -> int:
    """Bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int:
    """Bytes that can be allocated now without swapping, within the limit of a container."""
    available = total_memory()
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable"):
            available = int(line.split()[1]) * 1024
    left = container_memory_left()
    return available if left is None else min(available, left)


def container_memory_left(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> int | None:
    """Bytes left below the memory limit of this process's control group; None without a limit.

    Reads version 2 of control groups: memory.max and memory.current of the group and of every
    group above it. File pages that the kernel can drop do not count as used.
    """
    lines = (_read(own) or "").splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = root / path.strip("/")
    found: list[int] = []
    for group in (folder, *folder.parents):
        limit, used = _read(group / "memory.max"), _read(group / "memory.current")
        if limit and used and limit.isdigit() and used.isdigit():
            stat = dict(line.split() for line in (_read(group / "memory.stat") or "").splitlines())
            droppable = int(stat.get("inactive_file", 0))
            found.append(max(0, int(limit) - int(used) + droppable))
        if group == root:
            break
    return min(found, default=None)


SOURCES = ("--", ".", ":(exclude)results")


def git_state(root: Path = ROOT) -> dict[str, Any] | None:
    """The commit of the checkout and whether it has changes; None if it is not a checkout.

    Files in results/ do not count as changes.
    """
    try:
        _git(root, "ls-files", "--error-unmatch", "synthbench/__init__.py")
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(_git(root, "status", "--porcelain", *SOURCES))}
    except (OSError, subprocess.SubprocessError):
        return None


def commit_dates(commits: Iterable[str], root: Path = ROOT) -> dict[str, datetime]:
    """When each commit was made, of those that the checkout knows; empty without a checkout."""
    known = [commit for commit in commits if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit)]
    if not known:
        return {}
    command = ("log", "--no-walk=unsorted", "--ignore-missing", "--format=%H %cI", *known)
    try:
        lines = _git(root, *command).splitlines()
    except (OSError, subprocess.SubprocessError):
        return {}
    pairs = [line.split() for line in lines]
    return {commit: datetime.fromisoformat(date) for commit, date in pairs if commit in known}


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    return done.stdout.strip()


def _megahertz(path: Path) -> float | None:
    kilohertz = _read(path)
    return None if kilohertz is None else int(kilohertz) / 1000


def _read(path: str | Path) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
