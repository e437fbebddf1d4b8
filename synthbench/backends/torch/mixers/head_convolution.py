"""Convolution along length with one kernel per head, in PyTorch: sums of shifts, banded products.

A block of T outputs reads T + K - 1 inputs. With the kernels as the rows of a band matrix
[T, T + K - 1] the block is a matrix product: up to (T + K - 1) / K times the arithmetic, and faster
than PyTorch's convolution all the same.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.kernel_record import threshold
from synthbench.backends.torch.mixers.compiled import run_compiled
from synthbench.mixers.convolution import padding

# From `python -m benchmarks.convolution_table` on a CPU: the widest kernel for sums of shifts, and
# for banded products {widest kernel: outputs per block}. With fewer channels per head than
# LEAST_CHANNELS the matrices are too thin for banded products to be faster.
WIDEST_SHIFTED = 3
BLOCKS = {15: 16, 31: 32, 2**31: 64}
LEAST_CHANNELS = 4


def shifted_sums(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [H,K] -> [B,L,d], as a sum of K shifted copies of U."""
    L, d = u.shape[1:]
    before, after = padding(kernel.shape[1], causal)
    padded = F.pad(u, (0, 0, before, after))
    by_channel = kernel.repeat_interleave(d // kernel.shape[0], dim=0).unbind(1)
    y = padded[:, :L] * by_channel[0]
    for j, weight in enumerate(by_channel[1:], start=1):
        y = y + padded[:, j : j + L] * weight
    return y


def compiled_sums(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """The same under torch.compile, which fuses the sums of any width into one loop."""
    return run_compiled(shifted_sums, u, kernel, causal, shape=u.shape)


def banded_products(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [H,K] -> [B,L,d]."""
    B, L, d = u.shape
    H, K = kernel.shape
    T = block_size(K)
    band = to_band(kernel[:, None].expand(H, T, K))
    windows = windows_of_blocks(u, T, K, causal)  # [B,n,d,T+K-1]
    n = windows.shape[1]
    columns = windows.unflatten(2, (H, d // H)).permute(2, 4, 0, 1, 3).reshape(H, T + K - 1, -1)
    y = (band @ columns).reshape(H, T, B, n, d // H)
    return y.permute(2, 3, 1, 0, 4).reshape(B, n * T, d)[:, :L]


def banded_products_by_position(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with one kernel per position and head [B,L,H,K] -> [B,L,d]."""
    B, L, d = u.shape
    H, K = kernel.shape[2:]
    T = block_size(K)
    windows = windows_of_blocks(u, T, K, causal)
    n = windows.shape[1]
    columns = windows.unflatten(2, (H, d // H)).swapaxes(-1, -2)  # [B,n,H,T+K-1,c]
    kernel = F.pad(kernel, (0, 0, 0, 0, 0, n * T - L)).unflatten(1, (n, T)).swapaxes(2, 3)
    y = to_band(kernel) @ columns  # [B,n,H,T,c]
    return y.swapaxes(2, 3).reshape(B, n * T, d)[:, :L]


def block_size(width: int) -> int:
    """Outputs per block for kernels of this width."""
    return threshold(next(block for widest, block in BLOCKS.items() if width <= widest))


def windows_of_blocks(u: Tensor, block: int, width: int, causal: bool) -> Tensor:
    """U [B,L,d] -> [B,n,d,T+K-1]: the inputs of each block of T outputs, zeros outside; a view."""
    L = u.shape[1]
    before, after = padding(width, causal)
    return F.pad(u, (0, 0, before, after + -L % block)).unfold(1, block + width - 1, block)


def to_band(rows: Tensor) -> Tensor:
    """Rows [..,T,K] -> [..,T,T+K-1], row t shifted by t to the right, zeros elsewhere."""
    T, K = rows.shape[-2:]
    wide = F.pad(rows, (0, T)).flatten(-2)[..., : T * (T + K - 1)]
    return wide.unflatten(-1, (T, T + K - 1))
