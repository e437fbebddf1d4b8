"""Dynamic convolution in PyTorch; the equation is in synthbench/mixers/dynamic_conv.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.light_conv import output
from synthbench.backends.torch.mixers.numerics import (
    add_bias,
    glu,
    softmax,
    windows,
    zero_padded,
)
from synthbench.mixers.dynamic_conv import DynamicConv


def reference(
    mixer: DynamicConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """GLU, a depthwise convolution with softmax(U generator) at each position, output."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    kernel = softmax(torch.einsum("bld,dhw->blhw", u, p["generator"]), axis=-1)
    window = windows(u, mixer.width, causal)  # [B,L,d,K]
    window = window.reshape(*u.shape[:2], kernel.shape[2], -1, mixer.width)
    y = torch.einsum("blhcw,blhw->blhc", window, kernel).reshape(u.shape)
    return output(p, y)
