"""FD in JAX; the equation is in synthbench/mixers/factorized_dense.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.numerics import add_bias, project
from synthbench.mixers.factorized_dense import FactorizedDense


def logits(
    component: FactorizedDense,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """S[..,j] = A[..,j // b] B[..,j % b], cut to the length of x [B,H,L,L]."""
    hidden_a, hidden_b = component.hidden_names
    a = factor(p, x, hidden_a, "factorized_dense.a")
    b = factor(p, x, hidden_b, "factorized_dense.b")
    outer = a[..., :, None] * b[..., None, :]  # [B,H,L,a,b]
    return outer.reshape(*outer.shape[:3], -1)[..., : x.shape[1]]


def factor(p: dict[str, Array], x: Array, hidden_name: str, name: str) -> Array:
    """relu(X hidden) times one factor's map [H,k,n] -> [B,H,L,n]."""
    hidden = jax.nn.relu(project(x, p[hidden_name], p.get(f"{hidden_name}_bias")))
    rows = jnp.einsum("blhk,hkn->blhn", hidden, p[name])
    return add_bias(rows, p.get(f"{name}_bias")).swapaxes(1, 2)
