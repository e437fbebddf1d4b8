"""FR in JAX; the equation is in synthbench/mixers/factorized_random.py."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.numerics import ForwardInputs
from synthbench.backends.jax.mixers.past import StepInputs
from synthbench.mixers.factorized_random import FactorizedRandom


def logits(component: FactorizedRandom, inputs: ForwardInputs) -> Array:
    """S = left right^T, cut to the length of x [1,H,L,L]."""
    L = inputs.x.shape[1]
    left = inputs.p["factorized_random.left"][:, :L]
    right = inputs.p["factorized_random.right"][:, :L]
    return (left @ right.swapaxes(1, 2))[None]


def row(component: FactorizedRandom, inputs: StepInputs) -> Array:
    """The logits of one position [1,H,1,keys]."""
    left = inputs.p["factorized_random.left"][:, inputs.position]
    right = inputs.p["factorized_random.right"][:, : inputs.keys]
    return jnp.einsum("hr,hmr->hm", left, right)[None, :, None]
