"""Matrix products on a CPU, by the faster of the two libraries that PyTorch includes.

PyTorch multiplies float32 matrices with MKL, which does not use the widest vector instructions of
processors that Intel did not make. oneDNN, which torch.compile uses for linear layers, does: it is
up to twice as fast there. Which library is faster here is measured once per process, before the
first large product.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from synthbench.backends.kernel_record import record_kernel, threshold
from synthbench.backends.torch.private_api import (
    has_linear_pointwise,
    is_fake,
    linear_pointwise,
    without_modes,
)
from synthbench.errors import UnsupportedError

ONEDNN = "oneDNN products"
# The least number of multiplications: a smaller product costs less than the call of oneDNN.
LEAST = 2**20
# The results for a batch are copied into one tensor: worth it if each sums this many products.
LEAST_SUMMED_OF_BATCH = 256
# How many times as fast oneDNN must be to be used, measured on square matrices of size SIDE.
LEAST_SPEEDUP = 1.2
SIDE, REPETITIONS = 512, 5


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` with its gradients: [..,m,k] [..,k,n], or [..,k] [k,n]."""
    if not _onednn_applies(left, right):  # the same for tensors without values: same memory
        return left @ right
    made: Tensor = _Product.apply(left, right)  # type: ignore[no-untyped-call]
    return made


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """`product` without gradients."""
    if not _onednn_applies(left, right) or left.is_meta or is_fake(left):
        return left @ right
    if right.ndim == 2 and left.ndim > 2:
        return multiply(left.flatten(0, -2), right).unflatten(0, left.shape[:-1])
    m, k, n = *left.shape[-2:], right.shape[-1]
    if m * k * n < threshold(LEAST):
        return left @ right
    batch = left.shape[:-2]
    if batch.numel() == 1:
        record_kernel(ONEDNN)
        return _onednn(left.reshape(m, k), right.reshape(k, n)).reshape(*batch, m, n)
    if batch != right.shape[:-2] or k < threshold(LEAST_SUMMED_OF_BATCH):
        return left @ right
    record_kernel(ONEDNN)
    made = left.new_empty(batch.numel(), m, n)
    lefts, rights = left.flatten(0, -3), right.flatten(0, -3)
    for i in range(batch.numel()):
        made[i] = _onednn(lefts[i], rights[i])
    return made.reshape(*batch, m, n)


class _Product(torch.autograd.Function):
    """See `product`."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        for_left, for_right = ctx.needs_input_grad
        ctx.save_for_backward(left if for_right else None, right if for_left else None)
        ctx.folds = right.ndim == 2
        return multiply(left, right)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (d_out,) = gradients
        left, right = ctx.saved_tensors
        d_left = multiply(d_out, right.mT) if ctx.needs_input_grad[0] else None
        d_right = None
        if ctx.needs_input_grad[1]:
            if ctx.folds:
                left, d_out = left.flatten(0, -2), d_out.flatten(0, -2)
            d_right = multiply(left.mT, d_out)
        return d_left, d_right


def fast(x: Tensor) -> bool:
    """Whether large products of tensors like x are computed by oneDNN."""
    if x.device.type == "cuda" or x.dtype != torch.float32 or torch.compiler.is_compiling():
        return False
    return onednn_is_faster()


def _onednn_applies(left: Tensor, right: Tensor) -> bool:
    """Whether oneDNN may compute this product, if it is large."""
    if left.dtype != right.dtype or (right.ndim != 2 and left.shape[:-2] != right.shape[:-2]):
        return False
    return left.numel() > 0 and right.numel() > 0 and fast(left)


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies float32 matrices faster than MKL on this processor."""
    try:  # a mode may count operations, or leave tensors without values
        modes_off = without_modes()
    except UnsupportedError:
        return False
    with torch.no_grad(), modes_off:
        if not has_linear_pointwise():
            return False
        a, b = torch.ones(SIDE, SIDE), torch.ones(SIDE, SIDE)
        return _best(lambda: a @ b) > LEAST_SPEEDUP * _best(lambda: _onednn(a, b))


def _best(make: Callable[[], Tensor]) -> float:
    """The shortest time of several calls, in seconds."""
    make()
    times = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        make()
        times.append(time.perf_counter() - begin)
    return min(times)


def _onednn(left: Tensor, right: Tensor) -> Tensor:
    """[m,k] times [k,n]."""
    if left.stride(-1) != 1 and right.shape[1] < left.shape[0]:
        # Reads the left matrix as it is stored: more than twice as fast if n is small.
        return _linear(right.mT.contiguous(), left.mT).mT
    return _linear(left, right)


def _linear(left: Tensor, right: Tensor) -> Tensor:
    """[m,k] times [k,n] without gaps in memory: with gaps oneDNN is a thousand times slower."""
    return linear_pointwise(_dense(left), _dense(right))


def _dense(x: Tensor) -> Tensor:
    """The matrix with its rows, or its columns, next to each other in memory."""
    return x if x.is_contiguous() or x.mT.is_contiguous() else x.contiguous()
