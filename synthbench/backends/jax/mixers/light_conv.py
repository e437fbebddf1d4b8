"""Lightweight convolution in JAX; the equation is in synthbench/mixers/light_conv.py."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers import head_convolution
from synthbench.backends.jax.mixers.numerics import (
    ForwardInputs,
    add_bias,
    affine,
    convolve,
    glu,
    softmax,
    split_heads,
    zero_padded,
)
from synthbench.backends.jax.mixers.past import StepInputs
from synthbench.backends.kernel_choice import choose
from synthbench.backends.kernel_record import record_kernel
from synthbench.kernel import Kernel
from synthbench.mixers.light_conv import GatedConvolution, LightConv


def reference(
    mixer: LightConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """GLU, a depthwise convolution with softmax(kernel), then the output map."""
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"))), padding_mask)
    return output(p, grouped(u, softmax(p["kernel"], axis=-1), causal))


def fused(
    mixer: LightConv,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The same; the convolution is a sum of shifts, or banded products, if that is faster."""
    chosen = choose(kernels(mixer.width))
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"))), padding_mask)
    record_kernel(chosen.path)
    kernel = softmax(p["kernel"], axis=-1)[None, None]
    return output(p, CONVOLUTIONS[chosen.path](u, kernel, causal))


def kernels(width: int) -> list[Kernel]:
    """The kernels for filters of a width, the one to take without a measurement first."""
    paths = list(CONVOLUTIONS)
    if width > head_convolution.WIDEST_SHIFTED:
        paths.reverse()
    return [Kernel(path) for path in paths]


CONVOLUTIONS: dict[str, Callable[[Array, Array, bool], Array]] = {
    "shifted sums": head_convolution.shifted_sums,
    "banded products": head_convolution.banded_products,
}


def grouped(u: Array, kernel: Array, causal: bool) -> Array:
    """U [B,L,d] with kernels [H,K] -> [B,L,d], as a convolution with d groups."""
    d = u.shape[-1]
    by_channel = jnp.repeat(kernel, d // kernel.shape[0], axis=0)  # [d,K]
    return convolve(u, by_channel.T[:, None, :], causal, groups=d)


def output(p: dict[str, Array], y: Array) -> Array:
    """What follows the convolution: its bias, the pointwise map (layout mesh), the output map."""
    y = add_bias(y, p.get("kernel_bias"))
    if "pointwise" in p:
        y = affine(y, p["pointwise"], p["pointwise_bias"])
    return affine(y, p["output"], p.get("output_bias"))


def kept(mixer: GatedConvolution, inputs: ForwardInputs) -> dict[str, Array]:
    """What decoding keeps of each position: U = GLU(X input) [B,L,d]."""
    u = glu(affine(inputs.x, inputs.p["input"], inputs.p.get("input_bias")))
    return {"gated": u}


def step(mixer: LightConv, inputs: StepInputs) -> Array:
    """Y [B,1,d] of one position; X [B,1,d]."""
    kernel = softmax(inputs.p["kernel"], axis=-1)
    window = inputs.slide("gated", kept(mixer, inputs)["gated"])
    y = jnp.einsum("bwhc,hw->bhc", split_heads(window, kernel.shape[0]), kernel)
    return output(inputs.p, y.reshape(inputs.x.shape))
