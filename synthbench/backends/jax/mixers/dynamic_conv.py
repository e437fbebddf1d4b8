"""Dynamic convolution in JAX; the equation is in synthbench/mixers/dynamic_conv.py."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.light_conv import output
from synthbench.backends.jax.mixers.numerics import (
    add_bias,
    glu,
    softmax,
    windows,
    zero_padded,
)
from synthbench.backends.jax.mixers.shifted import convolve_heads
from synthbench.mixers.dynamic_conv import DynamicConv


def reference(
    mixer: DynamicConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """GLU, a depthwise convolution with softmax(U generator) at each position, output."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    kernel = softmax(jnp.einsum("bld,dhw->blhw", u, p["generator"]), axis=-1)
    window = windows(u, mixer.width, causal)  # [B,L,d,K]
    window = window.reshape(*u.shape[:2], kernel.shape[2], -1, mixer.width)
    y = jnp.einsum("blhcw,blhw->blhc", window, kernel).reshape(u.shape)
    return output(p, y)


def fused(
    mixer: DynamicConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The same, without the [B,L,d,K] copy of the windows."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    kernel = softmax(jnp.einsum("bld,dhw->blhw", u, p["generator"]), axis=-1)
    return output(p, convolve_heads(u, kernel, causal))
