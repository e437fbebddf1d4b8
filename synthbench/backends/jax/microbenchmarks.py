"""Single operations in JAX: the best rate of a device, and the time of dispatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from synthbench.backends.jax.kept_program import keep_program, load_program
from synthbench.backends.jax.module import DTYPES
from synthbench.backends.jax.placement import find_device
from synthbench.backends.jax.precision import full_precision


class JaxOperation:
    """One operation on arrays that exist already; see `Operation` in backends/base.py.

    With `donates_last`, the result takes the memory of the last array and replaces it.
    """

    def __init__(
        self, function: Callable[..., jax.Array], dtype: str, arrays: list[Any], donates_last: bool
    ) -> None:
        self.dtype, self.arrays, self.donates_last = dtype, arrays, donates_last
        donated = (len(arrays) - 1,) if donates_last else ()
        self.program = jax.jit(function, donate_argnums=donated, keep_unused=True)
        self.executable: Any = None

    def compile(self) -> None:
        """Compile it for these arrays."""
        with full_precision(self.dtype):
            self.executable = self.program.lower(*self.arrays).compile()

    def keep(self, file: Path, kernels: Sequence[str]) -> None:
        """Keep the program, unless that fails."""
        keep_program(file, self.executable)

    def load(self, file: Path) -> bool:
        """Load what `keep` kept, if it has and this process can use it."""
        if (kept := load_program(file)) is None:
            return False
        self.executable, _ = kept
        return True

    def __call__(self) -> Any:
        """Start the operation and return its result."""
        if self.executable is None:
            self.compile()
        with full_precision(self.dtype):
            produced = self.executable(*self.arrays)
        if self.donates_last:
            self.arrays[-1] = produced
        return produced

    def wait(self, produced: Any) -> None:
        """Block until the result is complete."""
        jax.block_until_ready(produced)


def matrix_products(dtype: str, device: str, size: int) -> list[JaxOperation]:
    """A [size,size] by [size,size] product into memory that is allocated already."""
    generator = np.random.default_rng(0)  # JAX's own would compile for half a second, in every cell
    values = [generator.random((size, size), dtype=np.float32) for _ in range(2)]
    with full_precision(dtype):  # arrays of NumPy: jnp.zeros would compile, in every cell
        a, b, out = (
            jax.device_put(x.astype(DTYPES[dtype]), find_device(device))
            for x in [*values, np.zeros_like(values[0])]
        )
    return [JaxOperation(lambda a, b, out: a @ b, dtype, [a, b, out], donates_last=True)]


def copy(dtype: str, device: str, elements: int) -> JaxOperation:
    """A copy of `elements` values into memory that is allocated already.

    The values are multiplied by one, or XLA would leave the copy out.
    """
    with full_precision(dtype), jax.default_device(find_device(device)):
        source = jnp.ones(elements, DTYPES[dtype])
        target, one = jnp.zeros_like(source), jnp.ones((), DTYPES[dtype])
    arrays = [source, one, target]
    return JaxOperation(lambda x, one, out: x * one, dtype, arrays, donates_last=True)


def smallest_step(device: str) -> JaxOperation:
    """One addition to one number."""
    x = jax.device_put(np.zeros((), np.float32), find_device(device))
    return JaxOperation(lambda x: x + 1, "float32", [x], donates_last=False)
