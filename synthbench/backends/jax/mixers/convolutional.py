"""Table 8's convolutional functions in JAX; see synthbench/mixers/convolutional.py."""

from __future__ import annotations

import jax
from jax import Array

from synthbench.backends.jax.mixers.numerics import Given, add_bias, convolve, zero_padded
from synthbench.mixers.convolutional import BottleneckConv, Conv, ConvReluConv


def conv(component: Conv, given: Given) -> Array:
    """S = conv(X) [B,H,L,L]."""
    p, x = given.p, zero_padded(given.x, given.padding_mask)
    return convolve_to_logits(x, p["conv.kernel"], p.get("conv.kernel_bias"), given.causal)


def conv_relu_conv(component: ConvReluConv, given: Given) -> Array:
    """S = conv2(relu(conv1(X))), the second convolution inside each head [B,H,L,L]."""
    p, x, padding_mask, causal = given.p, given.x, given.padding_mask, given.causal
    L = x.shape[1]
    first, second = p["conv_relu_conv.first"], p["conv_relu_conv.second"][..., :L]
    (w1, d, H, k), w2 = first.shape, second.shape[0]
    hidden = convolve(zero_padded(x, padding_mask), first.reshape(w1, d, H * k), causal)
    hidden = hidden.reshape(*hidden.shape[:2], H, k)
    hidden = jax.nn.relu(add_bias(hidden, p.get("conv_relu_conv.first_bias")))
    hidden = zero_padded(hidden, padding_mask).reshape(*hidden.shape[:2], H * k)
    by_head = second.swapaxes(1, 2).reshape(w2, k, H * L)
    rows = convolve(hidden, by_head, causal, groups=H)
    rows = rows.reshape(*rows.shape[:2], H, L)
    return cut_bias(rows, p.get("conv_relu_conv.second_bias")).swapaxes(1, 2)


def bottleneck_conv(component: BottleneckConv, given: Given) -> Array:
    """S = conv2(relu(conv1(X))) through a few channels [B,H,L,L]."""
    p, x, padding_mask, causal = given.p, given.x, given.padding_mask, given.causal
    hidden = convolve(zero_padded(x, padding_mask), p["bottleneck_conv.first"], causal)
    hidden = jax.nn.relu(add_bias(hidden, p.get("bottleneck_conv.first_bias")))
    hidden = zero_padded(hidden, padding_mask)
    second, bias = p["bottleneck_conv.second"], p.get("bottleneck_conv.second_bias")
    return convolve_to_logits(hidden, second, bias, causal)


def convolve_to_logits(x: Array, kernel: Array, bias: Array | None, causal: bool) -> Array:
    """X [B,L,c], kernel [w,c,H,N], bias [H,N] -> logits [B,H,L,L], cut to the length of x."""
    L = x.shape[1]
    kernel = kernel[..., :L]
    w, c, H, _ = kernel.shape
    rows = convolve(x, kernel.reshape(w, c, H * L), causal)
    return cut_bias(rows.reshape(*rows.shape[:2], H, L), bias).swapaxes(1, 2)


def cut_bias(rows: Array, bias: Array | None) -> Array:
    """Rows of logits [B,L,H,L] plus bias [H,N] cut to L."""
    return rows if bias is None else rows + bias[..., : rows.shape[-1]]
