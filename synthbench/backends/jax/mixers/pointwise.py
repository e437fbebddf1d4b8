"""bottleneck and glu in JAX; the equations are in synthbench/mixers/pointwise.py."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.convolutional import cut_bias
from synthbench.backends.jax.mixers.numerics import ForwardInputs, affine, split_heads
from synthbench.mixers.pointwise import Bottleneck, Glu


def bottleneck(component: Bottleneck, inputs: ForwardInputs) -> Array:
    """S = relu(relu(X down) up), split by heads, times logits [B,H,L,L]."""
    p = inputs.p
    hidden = bottleneck_hidden(inputs).swapaxes(1, 2)
    made = hidden @ p["bottleneck.logits"][..., : inputs.keys]
    bias = p.get("bottleneck.logits_bias")
    return made if bias is None else made + bias[:, None, : inputs.keys]


def bottleneck_hidden(inputs: ForwardInputs) -> Array:
    """relu(relu(X down) up), split by heads [B,L,H,k]."""
    p, x = inputs.p, inputs.x
    down = jax.nn.relu(affine(x, p["bottleneck.down"], p.get("bottleneck.down_bias")))
    up = jax.nn.relu(affine(down, p["bottleneck.up"], p.get("bottleneck.up_bias")))
    return split_heads(up, p["bottleneck.logits"].shape[0])


def glu(component: Glu, inputs: ForwardInputs) -> Array:
    """S = (Xh logits) * sigmoid(Xh gate), Xh = X split by heads [B,H,L,L]."""
    p, x = inputs.p, inputs.x
    split = split_heads(x, p["glu.logits"].shape[0])
    gate = jax.nn.sigmoid(rows(split, p["glu.gate"], p.get("glu.gate_bias"), inputs.keys))
    logits = rows(split, p["glu.logits"], p.get("glu.logits_bias"), inputs.keys)
    return logits * gate


def rows(split: Array, weight: Array, bias: Array | None, keys: int) -> Array:
    """Split [B,L,H,k] times weight [H,k,N] cut to the keys, plus bias -> [B,H,L,keys]."""
    product = jnp.einsum("blhk,hkm->blhm", split, weight[..., :keys])
    return cut_bias(product, bias).swapaxes(1, 2)
