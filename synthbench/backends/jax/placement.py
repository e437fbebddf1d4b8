"""Where the program being traced will run."""

from __future__ import annotations

import jax


def platform() -> str:
    """cpu or cuda (or another of JAX's): of the default device, else of the first one.

    Code that places arrays elsewhere says so with `jax.default_device` around the tracing.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        device = jax.devices()[0]
    name = device if isinstance(device, str) else device.platform
    return "cuda" if name == "gpu" else name
