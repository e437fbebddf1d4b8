"""Convolution along length with kernels tied in heads, which may differ from position to position.

Short kernels are sums of shifted copies, which XLA makes one loop of; the gradient of a kernel, and
long kernels, are products of blocks of positions with the windows they see, where the kernel is a
band of a matrix.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends import kernel_record
from synthbench.backends.kernel_record import threshold
from synthbench.mixers.convolution import padding

# The widest kernel that shifted sums are for, and the positions of a block, by measurement: on a
# CPU at [4,2048,512] a train step of width 31 takes 60 ms, of which shifted sums are 20; its
# grouped convolution takes 880, products with bands alone 100.
LONGEST_SHIFTED = 64
BLOCK = 64


def convolve_heads(u: Array, kernel: Array, causal: bool) -> Array:
    """y[t] = sum_j kernel[t,j] u[t - P + j]: U [B,L,d], kernel [B or 1, L or 1, H, K]."""
    B, L, d = u.shape
    heads = u.reshape(B, L, kernel.shape[2], -1)
    if kernel.shape[-1] <= LONGEST_SHIFTED:
        kernel_record.record_kernel("shifted sums")
        return shifted_sums(causal, heads, kernel).reshape(B, L, d)
    kernel_record.record_kernel("banded products")
    return banded_product(heads, kernel, causal).reshape(B, L, d)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def shifted_sums(causal: bool, u: Array, kernel: Array) -> Array:
    """The same by heads: U [B,L,H,c] -> [B,L,H,c]."""
    K = kernel.shape[-1]
    return summed(u, kernel.shape[1] > 1, padding(K, causal), [(kernel, j) for j in range(K)])


def summed(
    x: Array, by_position: bool, outside: tuple[int, int], kernels: list[tuple[Array, int]]
) -> Array:
    """sum_i kernel_i X shifted by i, added up in float32 at least; X zero outside."""
    L, wide = x.shape[1], jnp.promote_types(x.dtype, jnp.float32)
    padded = jnp.pad(x, ((0, 0), outside, (0, 0), (0, 0)))
    total = jnp.zeros((), wide)
    for i, (kernel, j) in enumerate(kernels):
        part = kernel[:, i : i + L] if by_position and kernel.shape[1] > L else kernel
        total = total + part[..., j, None].astype(wide) * padded[:, i : i + L]
    return total.astype(x.dtype)


def _forward(causal: bool, u: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return shifted_sums(causal, u, kernel), (u, kernel)


def _backward(causal: bool, saved: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    u, kernel = saved
    K, by_position = kernel.shape[-1], kernel.shape[1] > 1
    before, after = padding(K, causal)
    # What is at s came to y[t] with the weight j of t = s + P - j: the shifts run the other way.
    turned = kernel
    if by_position and K > 1:
        turned = jnp.pad(kernel, ((0, 0), (after, before), (0, 0), (0, 0)))
    du = summed(dy, by_position, (after, before), [(turned, K - 1 - i) for i in range(K)])
    block = block_size(u.shape[1])
    equation = "bnthc,bnshc->bnhts" if by_position else "bnthc,bnshc->hts"
    band = jnp.einsum(equation, in_blocks(dy, block), windows_of_blocks(u, K, causal))
    rows = from_band(band, K)
    if not by_position:
        return du, rows.sum(axis=1)[None, None]
    B, L, H, _ = u.shape
    return du, rows.swapaxes(2, 3).reshape(B, -1, H, K)[:, :L]


shifted_sums.defvjp(_forward, _backward)


def banded_product(u: Array, kernel: Array, causal: bool) -> Array:
    """The same, each block of positions a product of its band with its windows."""
    B, L, H, c = u.shape
    K, block = kernel.shape[-1], block_size(L)
    windows = windows_of_blocks(u, K, causal)  # [B,n,S,H,c]
    if kernel.shape[1] == 1:
        band = to_band(jnp.broadcast_to(kernel[0, 0, :, None], (H, block, K)))
        y = jnp.einsum("hts,bnshc->bnthc", band, windows)
    else:
        band = to_band(in_blocks(kernel, block).swapaxes(2, 3))
        y = jnp.einsum("bnhts,bnshc->bnthc", band, windows)
    return y.reshape(B, -1, H, c)[:, :L]


def block_size(seq_len: int) -> int:
    """Positions of a block."""
    return min(threshold(BLOCK), seq_len)


def in_blocks(x: Array, block: int) -> Array:
    """X [B,L,...] -> [B,n,block,...], zeros after the end."""
    B, L = x.shape[:2]
    n = -(-L // block)
    whole = jnp.pad(x, ((0, 0), (0, n * block - L), *[(0, 0)] * (x.ndim - 2)))
    return whole.reshape(B, n, block, *x.shape[2:])


def windows_of_blocks(u: Array, width: int, causal: bool) -> Array:
    """U [B,L,...] -> [B,n,block + K - 1,...]: all that the positions of each block see."""
    L = u.shape[1]
    block = block_size(L)
    n, size = -(-L // block), block + width - 1
    parts = -(-size // block)
    before, _ = padding(width, causal)
    after = (n + parts - 1) * block - L - before
    blocks = in_blocks(jnp.pad(u, ((0, 0), (before, after), *[(0, 0)] * (u.ndim - 2))), block)
    return jnp.concatenate([blocks[:, i : i + n] for i in range(parts)], axis=2)[:, :, :size]


def to_band(rows: Array) -> Array:
    """Rows [...,T,K] -> [...,T,T+K-1], row t moved t to the right."""
    *batch, T, K = rows.shape
    wide = jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, T)]).reshape(*batch, T * (T + K))
    return wide[..., : T * (T + K - 1)].reshape(*batch, T, T + K - 1)


def from_band(band: Array, width: int) -> Array:
    """The rows [...,T,K] of a band [...,T,T+K-1]."""
    *batch, T, S = band.shape
    flat = jnp.pad(band.reshape(*batch, T * S), [(0, 0)] * len(batch) + [(0, T)])
    return flat.reshape(*batch, T, S + 1)[..., :width]
