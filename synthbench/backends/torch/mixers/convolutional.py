"""conv, conv_relu_conv and bottleneck_conv in PyTorch; see synthbench/mixers/convolutional.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import ForwardInputs, add_bias, convolve, zero_padded
from synthbench.backends.torch.mixers.past import StepInputs
from synthbench.backends.torch.mixers.window_product import convolve_by_windows
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


def first_convolution(name: str, inputs: ForwardInputs, by_windows: bool = False) -> Tensor:
    """relu(conv1(X)), zero at padded positions: [B,L,c] or, inside each head, [B,L,H,k]."""
    kernel = inputs.p[f"{name}.first"]
    x, flat = zero_padded(inputs.x, inputs.padding_mask), kernel.flatten(2)
    if by_windows:
        hidden = convolve_by_windows(x, flat, inputs)
    else:
        hidden = convolve(x, flat, inputs.causal)
    hidden = hidden.unflatten(2, kernel.shape[2:])
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


def conv_kept(component: Conv, inputs: ForwardInputs) -> dict[str, Tensor]:
    """The inputs of the convolution [B,L,d]."""
    return {"conv.inputs": inputs.x}


def conv_row(component: Conv, inputs: StepInputs) -> Tensor:
    """The logits of one position [B,H,1,keys]."""
    window = inputs.slide("conv.inputs", inputs.x)
    return last_row(window, inputs.p["conv.kernel"], inputs.p.get("conv.kernel_bias"), inputs.keys)


def two_kept(component: ConvReluConv | BottleneckConv, inputs: ForwardInputs) -> dict[str, Tensor]:
    """The inputs of both convolutions, [B,L,d] and [B,L,c] or, inside each head, [B,L,H,k]."""
    hidden = first_convolution(component.name, inputs)
    return {f"{component.name}.inputs": inputs.x, f"{component.name}.hidden": hidden}


def conv_relu_conv_row(component: ConvReluConv, inputs: StepInputs) -> Tensor:
    """The logits of one position [B,H,1,keys], the second convolution inside each head."""
    window, second = hidden_window(component.name, inputs), inputs.p["conv_relu_conv.second"]
    rows = torch.einsum("bwhk,whkm->bhm", window, second[..., : inputs.keys])[:, None]
    return cut_bias(rows, inputs.p.get("conv_relu_conv.second_bias")).swapaxes(1, 2)


def bottleneck_conv_row(component: BottleneckConv, inputs: StepInputs) -> Tensor:
    """The logits of one position [B,H,1,keys]."""
    window, second = hidden_window(component.name, inputs), inputs.p["bottleneck_conv.second"]
    return last_row(window, second, inputs.p.get("bottleneck_conv.second_bias"), inputs.keys)


def hidden_window(name: str, inputs: StepInputs) -> Tensor:
    """The inputs of the second convolution at one position, [B,w,c] or [B,w,H,k]."""
    kernel = inputs.p[f"{name}.first"]
    window = inputs.slide(f"{name}.inputs", inputs.x)
    hidden = torch.einsum("bwd,wd...->b...", window, kernel)
    hidden = torch.relu(add_bias(hidden, inputs.p.get(f"{name}.first_bias")))
    return inputs.slide(f"{name}.hidden", hidden[:, None])


def last_row(window: Tensor, kernel: Tensor, bias: Tensor | None, keys: int) -> Tensor:
    """Window [B,w,c], kernel [w,c,H,N], bias [H,N] -> logits [B,H,1,keys]."""
    rows = torch.einsum("bwc,wchm->bhm", window, kernel[..., :keys])[:, None]
    return cut_bias(rows, bias).swapaxes(1, 2)
