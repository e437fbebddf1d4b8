"""Lightweight convolution in PyTorch; the equation is in synthbench/mixers/light_conv.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.cpu_matmul import product
from synthbench.backends.torch.mixers import head_convolution
from synthbench.backends.torch.mixers.numerics import (
    Times,
    add_bias,
    convolve,
    glu,
    record_kernel,
    softmax,
    zero_padded,
)
from synthbench.mixers.light_conv import LightConv


def reference(
    mixer: LightConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """GLU, a depthwise convolution with softmax(kernel), then the output map."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    return output(p, grouped(u, softmax(p["kernel"], axis=-1), causal))


def fused(
    mixer: LightConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same; on a CPU the convolution is a sum of shifts, or banded products if faster."""
    u = zero_padded(glu(add_bias(product(x, p["input"]), p.get("input_bias"))), padding_mask)
    kernel = softmax(p["kernel"], axis=-1)
    channels = u.shape[-1] // kernel.shape[0]
    if u.device.type != "cuda" and mixer.width <= head_convolution.WIDEST_SHIFTED:
        record_kernel("shifted sums")
        return output(p, head_convolution.shifted_sums(u, kernel, causal), product)
    if u.device.type != "cuda" and channels >= head_convolution.LEAST_CHANNELS:
        record_kernel("banded products")
        return output(p, head_convolution.banded_products(u, kernel, causal), product)
    record_kernel("grouped convolution")
    return output(p, grouped(u, kernel, causal), product)


def grouped(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [H,K] -> [B,L,d], as a convolution with d groups."""
    d = u.shape[-1]
    by_channel = kernel.repeat_interleave(d // kernel.shape[0], dim=0)  # [d,K]
    return convolve(u, by_channel.T[:, None, :], causal, groups=d)


def output(p: dict[str, Tensor], y: Tensor, times: Times = torch.matmul) -> Tensor:
    """What follows the convolution: its bias, the pointwise map (layout mesh), the output map."""
    y = add_bias(y, p.get("kernel_bias"))
    if "pointwise" in p:
        y = times(y, p["pointwise"]) + p["pointwise_bias"]
    return add_bias(times(y, p["output"]), p.get("output_bias"))
