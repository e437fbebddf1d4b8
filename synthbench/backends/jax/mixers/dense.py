"""D in JAX; the equation is in synthbench/mixers/dense.py."""

from __future__ import annotations

import jax
from jax import Array

from synthbench.backends.jax.mixers.numerics import ForwardInputs, add_bias
from synthbench.mixers.dense import Dense


def logits(component: Dense, inputs: ForwardInputs) -> Array:
    """S = relu(X hidden) logits [B,H,L,L]."""
    L = inputs.keys
    hidden = jax.nn.relu(inputs.project_heads_first(component.hidden_name))
    rows = hidden @ inputs.p["dense.logits"][..., :L]  # [H,k,L], or [k,L] for all heads
    if "dense.logits_bias" not in inputs.p:
        return rows
    return add_bias(rows, inputs.p["dense.logits_bias"][..., None, :L])
