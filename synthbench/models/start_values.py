"""Start values of declared parameters, drawn in NumPy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from synthbench.errors import SynthbenchError
from synthbench.mixers.base import Array, Parameter


def start_values(declared: Mapping[str, Parameter], seed: int = 0) -> dict[str, Array]:
    """Draw each parameter, float32, from a generator seeded by `seed` and the parameter's name.

    The order of the declaration does not matter, and a parameter's draw does not change when
    others come or go. Raises SynthbenchError where a draw has another shape than declared.
    """
    return {name: _drawn(name, p, seed) for name, p in declared.items()}


def _drawn(name: str, parameter: Parameter, seed: int) -> Array:
    value = np.asarray(parameter.init(_generator(seed, name), parameter.shape), dtype=np.float32)
    if value.shape != parameter.shape:
        raise SynthbenchError(
            f"the start value of {name!r} has shape {value.shape}; it is declared as "
            f"{parameter.shape}: draw it in the shape that is given to it"
        )
    return value


def _generator(seed: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
