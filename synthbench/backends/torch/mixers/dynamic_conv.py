"""Dynamic convolution in PyTorch; the equation is in synthbench/mixers/dynamic_conv.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.cpu_matmul import product
from synthbench.backends.torch.mixers import head_convolution
from synthbench.backends.torch.mixers.light_conv import output
from synthbench.backends.torch.mixers.numerics import (
    add_bias,
    glu,
    record_kernel,
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
    """GLU, a depthwise convolution with softmax(U generator) per position, then the output map."""
    u = zero_padded(glu(add_bias(x @ p["input"], p.get("input_bias"))), padding_mask)
    return output(p, by_windows(u, kernels(u, p["generator"]), causal))


def fused(
    mixer: DynamicConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same; banded products avoid the windows [B,L,d,K] unless heads have few channels."""
    u = zero_padded(glu(add_bias(product(x, p["input"]), p.get("input_bias"))), padding_mask)
    kernel = kernels(u, p["generator"])
    if u.shape[-1] // kernel.shape[2] >= head_convolution.LEAST_CHANNELS:
        record_kernel("banded products")
        y = head_convolution.banded_products_by_position(u, kernel, causal)
        return output(p, y, product)
    record_kernel("windows")
    return output(p, by_windows(u, kernel, causal), product)


def kernels(u: Tensor, generator: Tensor) -> Tensor:
    """softmax(U generator) [B,L,H,K]."""
    return softmax(torch.einsum("bld,dhw->blhw", u, generator), axis=-1)


def by_windows(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [B,L,H,K] -> [B,L,d], from the window [K] of each output."""
    H, K = kernel.shape[2:]
    window = windows(u, K, causal).reshape(*u.shape[:2], H, -1, K)
    return torch.einsum("blhcw,blhw->blhc", window, kernel).reshape(u.shape)
