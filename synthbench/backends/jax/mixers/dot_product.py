"""V in JAX; the equation is in synthbench/mixers/dot_product.py."""

from __future__ import annotations

from jax import Array

from synthbench.backends.jax.mixers.numerics import ForwardInputs
from synthbench.backends.jax.mixers.past import StepInputs
from synthbench.mixers.dot_product import DotProduct


def logits(component: DotProduct, inputs: ForwardInputs) -> Array:
    """S = Q K^T / sqrt(k) [B,H,L,L]."""
    query = inputs.project_heads_first("dot_product.query")
    key = inputs.project_heads_first("dot_product.key")
    return query * query.shape[-1] ** -0.5 @ key.swapaxes(-1, -2)


def kept(component: DotProduct, inputs: ForwardInputs) -> dict[str, Array]:
    """The keys [B,H,L,k]."""
    return {"dot_product.key": inputs.project("dot_product.key").swapaxes(1, 2)}


def row(component: DotProduct, inputs: StepInputs) -> Array:
    """The logits of one position [B,H,1,keys]."""
    query = inputs.project_heads_first("dot_product.query")
    key = inputs.extend("dot_product.key", kept(component, inputs)["dot_product.key"])
    return query * query.shape[-1] ** -0.5 @ key.swapaxes(-1, -2)
