"""Lightweight convolution in JAX; the equation is in synthbench/mixers/light_conv.py."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.head_convolution import convolve_heads
from synthbench.backends.jax.mixers.numerics import (
    add_bias,
    convolve,
    glu,
    softmax,
    zero_padded,
)
from synthbench.mixers.light_conv import LightConv


def reference(
    mixer: LightConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """GLU, a depthwise convolution with softmax(kernel), then the output map."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    return output(p, grouped(u, softmax(p["kernel"], axis=-1), causal))


def fused(
    mixer: LightConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The same; the convolution is a sum of shifts, or banded products if the kernel is long."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    kernel = softmax(p["kernel"], axis=-1)
    return output(p, convolve_heads(u, kernel[None, None], causal))


def grouped(u: Array, kernel: Array, causal: bool) -> Array:
    """U [B,L,d] with kernels [H,K] -> [B,L,d], as a convolution with d groups."""
    d = u.shape[-1]
    by_channel = jnp.repeat(kernel, d // kernel.shape[0], axis=0)  # [d,K]
    return convolve(u, by_channel.T[:, None, :], causal, groups=d)


def output(p: dict[str, Array], y: Array) -> Array:
    """What follows the convolution: its bias, the pointwise map (layout mesh), the output map."""
    y = add_bias(y, p.get("kernel_bias"))
    if "pointwise" in p:
        y = y @ p["pointwise"] + p["pointwise_bias"]
    return add_bias(y @ p["output"], p.get("output_bias"))
