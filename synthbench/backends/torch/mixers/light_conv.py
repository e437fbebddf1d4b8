"""Lightweight convolution in PyTorch; the equation is in synthbench/mixers/light_conv.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.torch.cpu_matmul import product
from synthbench.backends.torch.mixers import banded
from synthbench.backends.torch.mixers.numerics import (
    Times,
    add_bias,
    choose,
    convolve,
    glu,
    softmax,
    zero_padded,
)
from synthbench.mixers.convolution import padding
from synthbench.mixers.light_conv import LightConv

# As `python -m benchmarks.convolution_table` measures it.
WIDEST_SHIFTED = 3


def reference(
    mixer: LightConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """GLU, a depthwise convolution with softmax(kernel), output."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    return output(p, grouped(u, softmax(p["kernel"], axis=-1), causal))


def fused(
    mixer: LightConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same; on a CPU the convolution by shifted sums or a banded product where faster."""
    u = zero_padded(glu(add_bias(product(x, p["input"]), p.get("input_bias"))), padding_mask)
    kernel = softmax(p["kernel"], axis=-1)
    channels = u.shape[-1] // kernel.shape[0]
    if u.device.type != "cuda" and mixer.width <= WIDEST_SHIFTED:
        choose("shifted sums")
        return output(p, shifted(u, kernel, causal), product)
    if u.device.type != "cuda" and channels >= banded.LEAST_CHANNELS:
        choose("banded product")
        return output(p, banded.static(u, kernel, causal), product)
    choose("grouped convolution")
    return output(p, grouped(u, kernel, causal), product)


def grouped(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [H,K] by a convolution of d groups."""
    d = u.shape[-1]
    by_channel = kernel.repeat_interleave(d // kernel.shape[0], dim=0)  # [d,K]
    return convolve(u, by_channel.T[:, None, :], causal, groups=d)


def shifted(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [H,K] by a sum of K shifted copies."""
    L, d = u.shape[1:]
    before, after = padding(kernel.shape[1], causal)
    padded = F.pad(u, (0, 0, before, after))
    by_channel = kernel.repeat_interleave(d // kernel.shape[0], dim=0).unbind(1)
    y = padded[:, :L] * by_channel[0]
    for j, weight in enumerate(by_channel[1:], start=1):
        y = y + padded[:, j : j + L] * weight
    return y


def output(p: dict[str, Tensor], y: Tensor, times: Times = torch.matmul) -> Tensor:
    """What follows the convolution: its bias and the pointwise map (layout mesh), output."""
    y = add_bias(y, p.get("kernel_bias"))
    if "pointwise" in p:
        y = times(y, p["pointwise"]) + p["pointwise_bias"]
    return add_bias(times(y, p["output"]), p.get("output_bias"))
