"""Table 8's convolutional functions in JAX; see synthbench/mixers/convolutional.py."""

from __future__ import annotations

import jax
from jax import Array

from synthbench.backends.jax.mixers.numerics import ForwardInputs, add_bias, convolve, zero_padded
from synthbench.mixers.convolutional import BottleneckConv, Conv, ConvReluConv


def conv(component: Conv, inputs: ForwardInputs) -> Array:
    """S = conv(X) [B,H,L,L]."""
    p, x = inputs.p, zero_padded(inputs.x, inputs.padding_mask)
    return convolve_to_logits(x, p["conv.kernel"], p.get("conv.kernel_bias"), inputs.causal)


def conv_relu_conv(component: ConvReluConv, inputs: ForwardInputs) -> Array:
    """S = conv2(relu(conv1(X))), the second convolution inside each head [B,H,L,L]."""
    first = hidden(inputs)
    B, L, H, k = first.shape
    second = inputs.p["conv_relu_conv.second"][..., :L]
    by_head = second.swapaxes(1, 2).reshape(second.shape[0], k, H * L)
    rows = convolve(first.reshape(B, L, H * k), by_head, inputs.causal, groups=H)
    rows = rows.reshape(B, L, H, L)
    return cut_bias(rows, inputs.p.get("conv_relu_conv.second_bias")).swapaxes(1, 2)


def hidden(inputs: ForwardInputs) -> Array:
    """relu(conv1(X)) by head [B,L,H,k], zeros at padded positions."""
    p, first = inputs.p, inputs.p["conv_relu_conv.first"]
    w, d, H, k = first.shape
    x = zero_padded(inputs.x, inputs.padding_mask)
    rows = convolve(x, first.reshape(w, d, H * k), inputs.causal)
    rows = add_bias(rows.reshape(*rows.shape[:2], H, k), p.get("conv_relu_conv.first_bias"))
    return zero_padded(jax.nn.relu(rows), inputs.padding_mask)


def bottleneck_conv(component: BottleneckConv, inputs: ForwardInputs) -> Array:
    """S = conv2(relu(conv1(X))) through a few channels [B,H,L,L]."""
    second, bias = inputs.p["bottleneck_conv.second"], inputs.p.get("bottleneck_conv.second_bias")
    return convolve_to_logits(bottleneck_hidden(inputs), second, bias, inputs.causal)


def bottleneck_hidden(inputs: ForwardInputs) -> Array:
    """relu(conv1(X)) of a few channels [B,L,width], zeros at padded positions."""
    x = zero_padded(inputs.x, inputs.padding_mask)
    rows = convolve(x, inputs.p["bottleneck_conv.first"], inputs.causal)
    rows = add_bias(rows, inputs.p.get("bottleneck_conv.first_bias"))
    return zero_padded(jax.nn.relu(rows), inputs.padding_mask)


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
