"""Kernels of one operation in JAX: what the device gives at best, and what dispatch costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from synthbench.backends.jax.module import DTYPES
from synthbench.backends.jax.precision import precision


class JaxOperation:
    """One compiled operation on held arrays; see `Kernel` in backends/base.py.

    Where `recycles` is set, the last array is given away, and replaced by the result.
    """

    def __init__(
        self, function: Callable[..., jax.Array], dtype: str, arrays: list[Any], recycles: bool
    ) -> None:
        self.dtype, self.arrays, self.recycles = dtype, arrays, recycles
        donated = (len(arrays) - 1,) if recycles else ()
        program = jax.jit(function, donate_argnums=donated, keep_unused=True)
        with precision(dtype):
            self.executable = program.lower(*arrays).compile()

    def __call__(self) -> Any:
        """Start the operation; returns its result."""
        with precision(self.dtype):
            produced = self.executable(*self.arrays)
        if self.recycles:
            self.arrays[-1] = produced
        return produced

    def wait(self, produced: Any) -> None:
        """Block until the result is there."""
        jax.block_until_ready(produced)


def matrix_product(dtype: str, device: jax.Device, size: int) -> JaxOperation:
    """A [size,size] times [size,size] product into memory that is there already."""
    with precision(dtype), jax.default_device(device):
        keys = jax.random.split(jax.random.key(0))
        a, b = (jax.random.uniform(key, (size, size)).astype(DTYPES[dtype]) for key in keys)
        out = jnp.zeros_like(a)
    return JaxOperation(lambda a, b, out: a @ b, dtype, [a, b, out], recycles=True)


def copy(dtype: str, device: jax.Device, elements: int) -> JaxOperation:
    """A copy of `elements` values, times a number so that it is made, into memory as above."""
    with precision(dtype), jax.default_device(device):
        source = jnp.ones(elements, DTYPES[dtype])
        target, one = jnp.zeros_like(source), jnp.ones((), DTYPES[dtype])
    return JaxOperation(lambda x, one, out: x * one, dtype, [source, one, target], recycles=True)


def smallest_step(device: jax.Device) -> JaxOperation:
    """One addition to one number."""
    with jax.default_device(device):
        x = jnp.zeros((), jnp.float32)
    return JaxOperation(lambda x: x + 1, "float32", [x], recycles=False)
