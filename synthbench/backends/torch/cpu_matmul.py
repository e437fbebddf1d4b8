"""Matrix products on a CPU by the faster of the two libraries that PyTorch holds.

PyTorch multiplies float32 matrices with MKL, which leaves the widest vectors of processors that are
not Intel's unused; oneDNN, which torch.compile takes for linear layers, uses them: up to twice as
fast. Which of them it is here is measured once in a process, before the first large product.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from synthbench.backends.kernel_record import record_kernel, threshold

ONEDNN = "oneDNN products"
# From so many multiplications on, as products of fewer take no longer than the way to oneDNN.
LEAST = 2**20
# A batch of products is copied together: worth it where each of its results sums over many.
LEAST_SUMMED_OF_BATCH = 256
# How much faster it is to be, measured on square matrices of this side.
WORTH_IT = 1.2
SIDE, REPETITIONS = 512, 5


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right` with its gradients: [..,m,k] [..,k,n], or [..,k] [k,n]."""
    if not _may(left, right):  # tensors that hold nothing go this way too, as those they stand for
        return left @ right
    made: Tensor = _Product.apply(left, right)  # type: ignore[no-untyped-call]
    return made


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """`product` where no gradient is asked for."""
    if not _may(left, right) or left.is_meta or isinstance(left, FakeTensor):
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
    """Whether products of such tensors are oneDNN's where they are large."""
    if x.device.type == "cuda" or x.dtype != torch.float32 or torch.compiler.is_compiling():
        return False
    return onednn_is_faster()


def _may(left: Tensor, right: Tensor) -> bool:
    """Whether oneDNN may have a product of these."""
    if left.dtype != right.dtype or (right.ndim != 2 and left.shape[:-2] != right.shape[:-2]):
        return False
    return left.numel() > 0 and right.numel() > 0 and fast(left)


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies float32 matrices faster than MKL on this processor."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    with torch.no_grad(), _disable_current_modes():  # one may count, or hold no values
        a, b = torch.ones(SIDE, SIDE), torch.ones(SIDE, SIDE)
        return _best(lambda: a @ b) > WORTH_IT * _best(lambda: _onednn(a, b))


def _best(make: Callable[[], Tensor]) -> float:
    """The shortest time of it in seconds."""
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
        # The left matrix as it lies, not transposed: more than twice as fast where n is small.
        return _linear(right.mT.contiguous(), left.mT).mT
    return _linear(left, right)


def _linear(left: Tensor, right: Tensor) -> Tensor:
    """Matrices that lie with gaps take oneDNN a thousand times as long."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise(
        _dense(left), _dense(right).mT, None, "none", [], ""
    )
    return made


def _dense(x: Tensor) -> Tensor:
    """A matrix whose rows, or columns, follow each other."""
    return x if x.is_contiguous() or x.mT.is_contiguous() else x.contiguous()
