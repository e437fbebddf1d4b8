"""Convolution along length as products with banded matrices, in PyTorch.

A block of T outputs sees T + K - 1 inputs: with the kernels laid out as a band [T, T + K - 1] it is
a matrix product, which does up to (T + K - 1) / K times the arithmetic and is faster for it.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.kernel_record import threshold
from synthbench.mixers.convolution import padding

# Widest kernel -> outputs a block, as `python -m benchmarks.convolution_table` measures it on a
# CPU. A head of fewer channels than LEAST_CHANNELS gives products too thin to pay.
BLOCKS = {15: 16, 31: 32, 2**31: 64}
LEAST_CHANNELS = 4


def block_of(width: int) -> int:
    """Outputs a block for kernels of this width."""
    return threshold(next(block for widest, block in BLOCKS.items() if width <= widest))


def static(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with one kernel [H,K] for each contiguous group of channels -> [B,L,d]."""
    B, L, d = u.shape
    H, K = kernel.shape
    T = block_of(K)
    band = bands(kernel[:, None].expand(H, T, K))
    seen = blocks(u, T, K, causal)  # [B,n,d,T+K-1]
    n = seen.shape[1]
    columns = seen.unflatten(2, (H, d // H)).permute(2, 4, 0, 1, 3).reshape(H, T + K - 1, -1)
    y = (band @ columns).reshape(H, T, B, n, d // H)
    return y.permute(2, 3, 1, 0, 4).reshape(B, n * T, d)[:, :L]


def dynamic(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [B,L,H,K], one a position and group of channels -> [B,L,d]."""
    B, L, d = u.shape
    H, K = kernel.shape[2:]
    T = block_of(K)
    seen = blocks(u, T, K, causal)
    n = seen.shape[1]
    columns = seen.unflatten(2, (H, d // H)).swapaxes(-1, -2)  # [B,n,H,T+K-1,c]
    kernel = F.pad(kernel, (0, 0, 0, 0, 0, n * T - L)).unflatten(1, (n, T)).swapaxes(2, 3)
    y = bands(kernel) @ columns  # [B,n,H,T,c]
    return y.swapaxes(2, 3).reshape(B, n * T, d)[:, :L]


def bands(kernel: Tensor) -> Tensor:
    """Kernels [..,T,K] -> [..,T,T+K-1], each moved on by its row, zeros elsewhere."""
    T, K = kernel.shape[-2:]
    rows = F.pad(kernel, (0, T)).flatten(-2)[..., : T * (T + K - 1)]
    return rows.unflatten(-1, (T, T + K - 1))


def blocks(u: Tensor, T: int, K: int, causal: bool) -> Tensor:
    """U [B,L,d] -> [B,n,d,T+K-1]: what each block of T outputs sees, zeros outside; a view."""
    L = u.shape[1]
    before, after = padding(K, causal)
    return F.pad(u, (0, 0, before, after + -L % T)).unfold(1, T + K - 1, T)
