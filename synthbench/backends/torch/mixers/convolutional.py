"""conv, conv_relu_conv and bottleneck_conv in PyTorch; see synthbench/mixers/convolutional.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import ForwardInputs, add_bias, convolve, zero_padded
from synthbench.mixers.convolutional import BottleneckConv, Conv, ConvReluConv


def conv(component: Conv, inputs: ForwardInputs) -> Tensor:
    """S = conv(X) [B,H,L,L]."""
    p, x = inputs.p, zero_padded(inputs.x, inputs.padding_mask)
    return convolve_to_logits(x, p["conv.kernel"], p.get("conv.kernel_bias"), inputs.causal)


def conv_relu_conv(component: ConvReluConv, inputs: ForwardInputs) -> Tensor:
    """S = conv2(relu(conv1(X))), the second convolution inside each head [B,H,L,L]."""
    p, L, causal = inputs.p, inputs.x.shape[1], inputs.causal
    second = p["conv_relu_conv.second"][..., :L]
    w2, H, k, _ = second.shape
    hidden = first_convolution("conv_relu_conv", inputs).flatten(2)
    by_head = second.swapaxes(1, 2).reshape(w2, k, H * L)
    rows = convolve(hidden, by_head, causal, groups=H)
    rows = rows.reshape(*rows.shape[:2], H, L)
    return cut_bias(rows, p.get("conv_relu_conv.second_bias")).swapaxes(1, 2)


def bottleneck_conv(component: BottleneckConv, inputs: ForwardInputs) -> Tensor:
    """S = conv2(relu(conv1(X))) through a few channels [B,H,L,L]."""
    p, hidden = inputs.p, first_convolution("bottleneck_conv", inputs)
    second, bias = p["bottleneck_conv.second"], p.get("bottleneck_conv.second_bias")
    return convolve_to_logits(hidden, second, bias, inputs.causal)


def first_convolution(name: str, inputs: ForwardInputs) -> Tensor:
    """relu(conv1(X)), zero at padded positions: [B,L,c] or, inside each head, [B,L,H,k]."""
    kernel = inputs.p[f"{name}.first"]
    x = zero_padded(inputs.x, inputs.padding_mask)
    hidden = convolve(x, kernel.flatten(2), inputs.causal).unflatten(2, kernel.shape[2:])
    hidden = torch.relu(add_bias(hidden, inputs.p.get(f"{name}.first_bias")))
    return zero_padded(hidden, inputs.padding_mask)


def convolve_to_logits(x: Tensor, kernel: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    """X [B,L,c], kernel [w,c,H,N], bias [H,N] -> logits [B,H,L,L], cut to the length of x."""
    L = x.shape[1]
    kernel = kernel[..., :L]
    w, c, H, _ = kernel.shape
    rows = convolve(x, kernel.reshape(w, c, H * L), causal)
    return cut_bias(rows.reshape(*rows.shape[:2], H, L), bias).swapaxes(1, 2)


def cut_bias(rows: Tensor, bias: Tensor | None) -> Tensor:
    """Rows of logits [B,L,H,L] plus bias [H,N] cut to L."""
    return rows if bias is None else rows + bias[..., : rows.shape[-1]]
