"""float64 where it is asked for, and float32 products in full float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def precision(dtype: str) -> Iterator[None]:
    """Trace and run with float64 allowed, or with no TF32 in float32 products."""
    if dtype == "float64":
        with jax.enable_x64(True):
            yield
    elif dtype == "float32":
        with jax.default_matmul_precision("highest"):
            yield
    else:
        yield
