"""Matrix products on a CPU, by either of the two libraries that PyTorch includes.

PyTorch multiplies float32 matrices with MKL, which does not use the widest vector instructions of
processors that Intel did not make. oneDNN, which torch.compile uses for linear layers, does: it is
up to twice as fast there. Forms have a kernel for each library. Which of them is faster is
measured; where it is not, the maker of the processor decides.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from synthbench.backends.kernel_record import record_kernel, threshold
from synthbench.backends.torch.mixers.numerics import Times, require_first_gradients
from synthbench.backends.torch.placement import is_accelerator
from synthbench.backends.torch.private_api import (
    has_linear_pointwise,
    is_fake,
    linear_pointwise,
    without_modes,
)
from synthbench.errors import UnsupportedError

MKL, ONEDNN = "MKL", "oneDNN"
ONEDNN_PRODUCTS = "oneDNN products"  # as records name them
# The least number of multiplications: a smaller product costs less than the call of oneDNN.
LEAST = 2**20
# The results for a batch are copied into one tensor: worth it if each sums this many products.
LEAST_SUMMED_OF_BATCH = 256
CPU_INFO = Path("/proc/cpuinfo")


def libraries(x: Tensor) -> tuple[str, ...]:
    """The libraries that can multiply tensors like x, the one to take without a measurement first.

    One empty name where PyTorch leaves no choice: not float32, not on a CPU, or being compiled.
    """
    if is_accelerator(x.device) or x.dtype != torch.float32 or torch.compiler.is_compiling():
        return ("",)
    if not has_onednn():
        return ("",)
    return (MKL, ONEDNN) if made_by_intel() else (ONEDNN, MKL)


def product_of(library: str) -> Times:
    """A matrix product with gradients, by a library: [..,m,k] [..,k,n], or [..,k] [k,n]."""
    return product if library == ONEDNN else torch.matmul


def multiply_of(library: str) -> Times:
    """`product_of` without gradients."""
    return multiply if library == ONEDNN else torch.matmul


@cache
def has_onednn() -> bool:
    """Whether oneDNN's product works in this build; tried once, on tensors with values."""
    try:  # a mode may count operations, or leave tensors without values
        modes_off = without_modes()
    except UnsupportedError:
        return False
    with torch.no_grad(), modes_off:
        return has_linear_pointwise()


@cache
def made_by_intel() -> bool:
    """Whether Intel made this processor; True where the system does not say."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        return True
    makers = {line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")}
    return makers <= {"GenuineIntel"}


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` with its gradients by oneDNN, as far as the products are large."""
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
        record_kernel(ONEDNN_PRODUCTS)
        return _onednn(left.reshape(m, k), right.reshape(k, n)).reshape(*batch, m, n)
    if batch != right.shape[:-2] or k < threshold(LEAST_SUMMED_OF_BATCH):
        return left @ right
    record_kernel(ONEDNN_PRODUCTS)
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
        require_first_gradients()
        (d_out,) = gradients
        left, right = ctx.saved_tensors
        d_left = multiply(d_out, right.mT) if ctx.needs_input_grad[0] else None
        d_right = None
        if ctx.needs_input_grad[1]:
            if ctx.folds:
                left, d_out = left.flatten(0, -2), d_out.flatten(0, -2)
            d_right = multiply(left.mT, d_out)
        return d_left, d_right


def _onednn_applies(left: Tensor, right: Tensor) -> bool:
    """Whether oneDNN may compute this product, if it is large."""
    if left.dtype != right.dtype or (right.ndim != 2 and left.shape[:-2] != right.shape[:-2]):
        return False
    return left.numel() > 0 and right.numel() > 0 and ONEDNN in libraries(left)


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
