"""D in JAX; the equation is in synthbench/mixers/dense.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.numerics import Given, add_bias
from synthbench.mixers.dense import Dense


def logits(component: Dense, given: Given) -> Array:
    """S = relu(X hidden) logits [B,H,L,L]."""
    L = given.x.shape[1]
    hidden = jax.nn.relu(given.project(component.hidden_name))
    equation = "blhk,km->bhlm" if component.sharing == "heads" else "blhk,hkm->bhlm"
    rows = jnp.einsum(equation, hidden, given.p["dense.logits"][..., :L])
    if "dense.logits_bias" not in given.p:
        return rows
    return add_bias(rows, given.p["dense.logits_bias"][..., None, :L])
