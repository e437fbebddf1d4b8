"""V in JAX; the equation is in synthbench/mixers/dot_product.py."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.numerics import project
from synthbench.mixers.dot_product import DotProduct


def logits(
    component: DotProduct,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """S = Q K^T / sqrt(k) [B,H,L,L]."""
    query = project(x, p["dot_product.query"], p.get("dot_product.query_bias"))
    key = project(x, p["dot_product.key"], p.get("dot_product.key_bias"))
    return jnp.einsum("blhk,bmhk->bhlm", query * query.shape[-1] ** -0.5, key)
