"""FD in JAX; the equation is in synthbench/mixers/factorized_dense.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.numerics import Given, add_bias
from synthbench.mixers.factorized_dense import FactorizedDense


def logits(component: FactorizedDense, given: Given) -> Array:
    """S[..,j] = A[..,j // b] B[..,j % b], cut to the length of x [B,H,L,L]."""
    hidden_a, hidden_b = component.hidden_names
    a = factor(given, hidden_a, "factorized_dense.a")
    b = factor(given, hidden_b, "factorized_dense.b")
    outer = a[..., :, None] * b[..., None, :]  # [B,H,L,a,b]
    return outer.reshape(*outer.shape[:3], -1)[..., : given.x.shape[1]]


def factor(given: Given, hidden_name: str, name: str) -> Array:
    """relu(X hidden) times one factor's map [H,k,n] -> [B,H,L,n]."""
    hidden = jax.nn.relu(given.project(hidden_name))
    rows = jnp.einsum("blhk,hkn->blhn", hidden, given.p[name])
    return add_bias(rows, given.p.get(f"{name}_bias")).swapaxes(1, 2)
