"""float64 for cells that use it, float32 products in full float32, and JAX's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from synthbench.backends.base import Setting
from synthbench.backends.jax.private_api import platform_version
from synthbench.devices import is_host
from synthbench.mixers.initializers import usable_cores


@contextmanager
def full_precision(dtype: str = "float32") -> Iterator[None]:
    """In this block, trace and run with float64 enabled, or without TF32 in float32 products."""
    if dtype == "float64":
        with jax.enable_x64(True):
            yield
    elif dtype == "float32":
        with jax.default_matmul_precision("highest"):
            yield
    else:
        yield


def numerics() -> dict[str, Any]:
    """Threads, matmul precision and TF32 as cells use them, and what the build supports."""
    with full_precision():
        products = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    return {
        "threads": usable_cores(),
        "float32_matmul_precision": products,
        "tf32": products != "highest",
        "platform": jax.default_backend(),
        "platform_version": platform_version(),
        "xla_flags": os.environ.get("XLA_FLAGS"),
    }


def compiler_options(setting: Setting) -> dict[str, bool | int] | None:
    """XLA's options for a setting; None are its own, with which cells are timed.

    A quick program on a CPU is compiled in about a third of the time.
    """
    if not setting.quick or not is_host(setting.device):
        return None
    quick: dict[str, bool | int] = {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
    }
    if jax.__version__.startswith("0.10."):  # other versions do not know it
        quick["xla_cpu_use_fusion_emitters"] = False
    return quick
