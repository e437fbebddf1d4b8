"""Convolution along length as one product of windows, which the backward pass makes again.

PyTorch's convolution copies the kernel, whose axes it wants in another order, and gives the outputs
in an order that what follows has to copy as well.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    Times,
    require_first_gradients,
)
from synthbench.mixers.convolution import padding


def shifts(x: Tensor, width: int, causal: bool) -> list[Tensor]:
    """X [B,L,..] -> K times [B,L,..]: x[t - P + j] at position t, with zeros outside; views."""
    outside = [0] * (2 * (x.ndim - 2))
    padded = F.pad(x, (*outside, *padding(width, causal)))
    return [padded[:, j : j + x.shape[1]] for j in range(width)]


def convolve_by_windows(x: Tensor, kernel: Tensor, inputs: ForwardInputs) -> Tensor:
    """Y[t] = sum_j X[t - P + j] kernel[j]; X [B,L,c], kernel [K,c,o] -> [B,L,o]."""
    if torch.compiler.is_compiling():
        window = torch.cat(shifts(x, kernel.shape[0], inputs.causal), 2)
        return inputs.times(window, kernel.flatten(0, 1))
    made: Tensor = _WindowProduct.apply(x, kernel, inputs.causal, inputs.times)  # type: ignore[no-untyped-call]
    return made


class _WindowProduct(torch.autograd.Function):
    """See `convolve_by_windows`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor, causal: bool, times: Times) -> Tensor:
        ctx.save_for_backward(x, kernel)
        ctx.causal, ctx.times = causal, times
        window = torch.cat(shifts(x, kernel.shape[0], causal), 2)
        return times(window, kernel.flatten(0, 1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        require_first_gradients()
        (d_out,) = gradients
        x, kernel = ctx.saved_tensors
        d_x = d_kernel = None
        if ctx.needs_input_grad[1]:
            window = torch.cat(shifts(x, kernel.shape[0], ctx.causal), 2)
            flat = ctx.times(window.flatten(0, 1).mT, d_out.flatten(0, 1))
            d_kernel = flat.reshape(kernel.shape)
        if ctx.needs_input_grad[0]:
            d_window = ctx.times(d_out, kernel.flatten(0, 1).mT)
            d_x = _sum_of_windows(d_window.unflatten(2, kernel.shape[:2]), ctx.causal)
        return d_x, d_kernel, None, None


def _sum_of_windows(window: Tensor, causal: bool) -> Tensor:
    """[B,L,K,c] -> [B,L,c]: each position summed over the windows that it is in."""
    B, L, K, c = window.shape
    before, _ = padding(K, causal)
    padded = window.new_zeros(B, L + K - 1, c)
    for j in range(K):
        padded[:, j : j + L] += window[:, :, j]
    return padded[:, before : before + L]
