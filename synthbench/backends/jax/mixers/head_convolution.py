"""Convolution along length with one kernel per head, in JAX: sums of shifts, banded products.

The kernel may differ from position to position. Short kernels are sums of shifted copies, which XLA
fuses into one loop. Long kernels, and the gradients of all kernels, are products of blocks: a block
of T outputs reads T + K - 1 inputs, with the kernels as the rows of a band matrix [T, T + K - 1].
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends.jax.placement import platform
from synthbench.backends.kernel_record import threshold
from synthbench.mixers.convolution import padding

# By measurement: the widest kernel for sums of shifts, and the outputs per block. On a CPU at
# [4,2048,512], a train step of width 31 takes 60 ms, of which 20 ms are sums of shifts; with
# grouped convolution it takes 880 ms, with banded products alone 100 ms.
WIDEST_SHIFTED = 64
BLOCK = 64


def shifted_sums(u: Array, kernel: Array, causal: bool) -> Array:
    """y[t] = sum_j kernel[t,j] u[t - P + j]: U [B,L,d], kernel [B or 1, L or 1, H, K]."""
    heads = u.reshape(*u.shape[:2], kernel.shape[2], -1)
    return _shifted_sums(causal, heads, kernel).reshape(u.shape)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _shifted_sums(causal: bool, u: Array, kernel: Array) -> Array:
    """U [B,L,H,c] with kernels as in `shifted_sums` -> [B,L,H,c], a sum of shifted copies."""
    K = kernel.shape[-1]
    return sum_of_shifts(
        u, kernel.shape[1] > 1, padding(K, causal), [(kernel, j) for j in range(K)]
    )


def sum_of_shifts(
    x: Array, by_position: bool, outside: tuple[int, int], kernels: list[tuple[Array, int]]
) -> Array:
    """sum_i kernel_i X shifted by i, added in float32 or float64; X is zero outside."""
    L, wide = x.shape[1], jnp.promote_types(x.dtype, jnp.float32)
    padded = jnp.pad(x, ((0, 0), outside, (0, 0), (0, 0)))
    total = jnp.zeros((), wide)
    for i, (kernel, j) in enumerate(kernels):
        part = kernel[:, i : i + L] if by_position and kernel.shape[1] > L else kernel
        total = total + part[..., j, None].astype(wide) * padded[:, i : i + L]
    return total.astype(x.dtype)


def _forward(causal: bool, u: Array, kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    return _shifted_sums(causal, u, kernel), (u, kernel)


def _backward(causal: bool, saved: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    u, kernel = saved
    K, by_position = kernel.shape[-1], not is_shared(kernel)
    before, after = padding(K, causal)
    # u[s] is in y[t] with weight j for t = s + P - j: the shifts go in the opposite direction.
    padded = kernel
    if by_position and K > 1:
        padded = jnp.pad(kernel, ((0, 0), (after, before), (0, 0), (0, 0)))
    du = sum_of_shifts(dy, by_position, (after, before), [(padded, K - 1 - i) for i in range(K)])
    block = block_size(u.shape[1])
    inputs = in_blocks(dy, block), windows_of_blocks(u, K, causal)
    if by_position:
        band = jnp.einsum("bnthc,bnshc->bnhts", *inputs)
    elif platform() == "cpu":
        band = jnp.einsum("bnthc,bnshc->hts", *inputs)
    else:  # XLA merges K copies of the inputs into one product: it would compile for a minute
        inputs = lax.optimization_barrier(inputs)
        band = jnp.einsum("bnthc,bnshc->nhts", *inputs).sum(axis=0)
    rows = from_band(band, K)
    if not by_position:
        return du, rows.sum(axis=1)[None, None]
    B, L, H, _ = u.shape
    return du, rows.swapaxes(2, 3).reshape(B, -1, H, K)[:, :L]


_shifted_sums.defvjp(_forward, _backward)


def banded_products(u: Array, kernel: Array, causal: bool) -> Array:
    """The same as `shifted_sums`, one product per block."""
    B, L, d = u.shape
    H, K, block = kernel.shape[2], kernel.shape[-1], block_size(L)
    windows = windows_of_blocks(u.reshape(B, L, H, -1), K, causal)  # [B,n,S,H,c]
    if is_shared(kernel):
        band = to_band(jnp.broadcast_to(kernel[0, 0, :, None], (H, block, K)))
        y = jnp.einsum("hts,bnshc->bnthc", band, windows)
    else:
        band = to_band(in_blocks(kernel, block).swapaxes(2, 3))
        y = jnp.einsum("bnhts,bnshc->bnthc", band, windows)
    return y.reshape(B, -1, d)[:, :L]


def is_shared(kernel: Array) -> bool:
    """Whether all examples and positions have one kernel [1,1,H,K]; at L = 1 each has [B,1,H,K]."""
    return kernel.shape[:2] == (1, 1)


def block_size(seq_len: int) -> int:
    """Outputs per block."""
    return min(threshold(BLOCK), seq_len)


def in_blocks(x: Array, block: int) -> Array:
    """X [B,L,...] -> [B,n,block,...], with zeros after the end."""
    B, L = x.shape[:2]
    n = -(-L // block)
    padded = jnp.pad(x, ((0, 0), (0, n * block - L), *[(0, 0)] * (x.ndim - 2)))
    return padded.reshape(B, n, block, *x.shape[2:])


def windows_of_blocks(u: Array, width: int, causal: bool) -> Array:
    """U [B,L,...] -> [B,n,block+K-1,...]: the inputs of each block of outputs, zeros outside."""
    L = u.shape[1]
    block = block_size(L)
    n, size = -(-L // block), block + width - 1
    parts = -(-size // block)
    before, _ = padding(width, causal)
    after = (n + parts - 1) * block - L - before
    blocks = in_blocks(jnp.pad(u, ((0, 0), (before, after), *[(0, 0)] * (u.ndim - 2))), block)
    return jnp.concatenate([blocks[:, i : i + n] for i in range(parts)], axis=2)[:, :, :size]


def to_band(rows: Array) -> Array:
    """Rows [..,T,K] -> [..,T,T+K-1], row t shifted by t to the right, zeros elsewhere."""
    *batch, T, K = rows.shape
    wide = jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, T)]).reshape(*batch, T * (T + K))
    return wide[..., : T * (T + K - 1)].reshape(*batch, T, T + K - 1)


def from_band(band: Array, width: int) -> Array:
    """The rows [..,T,K] of a band [..,T,T+K-1]: the reverse of `to_band`."""
    *batch, T, S = band.shape
    flat = jnp.pad(band.reshape(*batch, T * S), [(0, 0)] * len(batch) + [(0, T)])
    return flat.reshape(*batch, T, S + 1)[..., :width]
