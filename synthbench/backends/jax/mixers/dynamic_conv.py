"""Dynamic convolution in JAX; the equation is in synthbench/mixers/dynamic_conv.py."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.light_conv import CONVOLUTIONS, kept, kernels, output
from synthbench.backends.jax.mixers.numerics import (
    affine,
    glu,
    softmax,
    split_heads,
    windows,
    zero_padded,
)
from synthbench.backends.jax.mixers.past import StepInputs
from synthbench.backends.kernel_choice import choose
from synthbench.backends.kernel_record import record_kernel
from synthbench.mixers.dynamic_conv import DynamicConv


def reference(
    mixer: DynamicConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """GLU, a depthwise convolution with softmax(U generator) per position, then the output map."""
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"))), padding_mask)
    return output(p, by_windows(u, generated(u, p["generator"]), causal))


def fused(
    mixer: DynamicConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The same; sums of shifts or banded products avoid the windows [B,L,d,K]."""
    chosen = choose(kernels(mixer.width))
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"))), padding_mask)
    record_kernel(chosen.path)
    return output(p, CONVOLUTIONS[chosen.path](u, generated(u, p["generator"]), causal))


def generated(u: Array, generator: Array) -> Array:
    """softmax(U generator) [B,L,H,K]."""
    return softmax(jnp.einsum("bld,dhw->blhw", u, generator), axis=-1)


def by_windows(u: Array, kernel: Array, causal: bool) -> Array:
    """U [B,L,d] with kernels [B,L,H,K] -> [B,L,d], from the window [K] of each output."""
    H, K = kernel.shape[2:]
    window = windows(u, K, causal).reshape(*u.shape[:2], H, -1, K)
    return jnp.einsum("blhcw,blhw->blhc", window, kernel).reshape(u.shape)


def step(mixer: DynamicConv, inputs: StepInputs) -> Array:
    """Y [B,1,d] of one position; X [B,1,d]."""
    u = kept(mixer, inputs)["gated"]
    kernel = generated(u, inputs.p["generator"])[:, 0]  # [B,H,K]
    window = inputs.slide("gated", u)
    y = jnp.einsum("bwhc,bhw->bhc", split_heads(window, kernel.shape[1]), kernel)
    return output(inputs.p, y.reshape(inputs.x.shape))
