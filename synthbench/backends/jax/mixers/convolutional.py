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
    first = hidden(given)
    B, L, H, k = first.shape
    second = given.p["conv_relu_conv.second"][..., :L]
    by_head = second.swapaxes(1, 2).reshape(second.shape[0], k, H * L)
    rows = convolve(first.reshape(B, L, H * k), by_head, given.causal, groups=H)
    rows = rows.reshape(B, L, H, L)
    return cut_bias(rows, given.p.get("conv_relu_conv.second_bias")).swapaxes(1, 2)


def hidden(given: Given) -> Array:
    """relu(conv1(X)) by head [B,L,H,k], zeros at padded positions."""
    p, first = given.p, given.p["conv_relu_conv.first"]
    w, d, H, k = first.shape
    x = zero_padded(given.x, given.padding_mask)
    rows = convolve(x, first.reshape(w, d, H * k), given.causal)
    rows = add_bias(rows.reshape(*rows.shape[:2], H, k), p.get("conv_relu_conv.first_bias"))
    return zero_padded(jax.nn.relu(rows), given.padding_mask)


def bottleneck_conv(component: BottleneckConv, given: Given) -> Array:
    """S = conv2(relu(conv1(X))) through a few channels [B,H,L,L]."""
    second, bias = given.p["bottleneck_conv.second"], given.p.get("bottleneck_conv.second_bias")
    return convolve_to_logits(bottleneck_hidden(given), second, bias, given.causal)


def bottleneck_hidden(given: Given) -> Array:
    """relu(conv1(X)) of a few channels [B,L,width], zeros at padded positions."""
    x = zero_padded(given.x, given.padding_mask)
    rows = convolve(x, given.p["bottleneck_conv.first"], given.causal)
    rows = add_bias(rows, given.p.get("bottleneck_conv.first_bias"))
    return zero_padded(jax.nn.relu(rows), given.padding_mask)


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
