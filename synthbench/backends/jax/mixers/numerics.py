"""Operations that several mixers use: projections, masks, softmax, convolution along length."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.mixers.convolution import padding


class ForwardInputs:
    """Parameters p, X [B,L,d], padding_mask [B,L] and causal of one forward pass."""

    def __init__(
        self, p: dict[str, Array], x: Array, padding_mask: Array | None, causal: bool
    ) -> None:
        self.p, self.x, self.padding_mask, self.causal = p, x, padding_mask, causal
        self._projected: dict[str, Array] = {}
        self._heads_first: dict[str, Array] = {}

    @property
    def keys(self) -> int:
        """How many keys a row of logits has."""
        return self.x.shape[1]

    def project(self, name: str) -> Array:
        """X times the projection `name` [d,H,k], plus its bias if any; computed once per pass."""
        if name not in self._projected:
            self._projected[name] = project(self.x, self.p[name], self.p.get(f"{name}_bias"))
        return self._projected[name]

    def project_heads_first(self, name: str) -> Array:
        """The same as `project`, [B,H,L,k]."""
        if name not in self._heads_first:
            weight, bias = self.p[name], self.p.get(f"{name}_bias")
            self._heads_first[name] = project_heads_first(self.x, weight, bias)
        return self._heads_first[name]


def project_heads_first(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """X [B,L,d] times weight [d,H,k] plus bias [H,k] -> [B,H,L,k].

    In one einsum: XLA's gradient of a product that is transposed afterwards took a tenth longer.
    """
    return add_bias(jnp.einsum("bld,dhk->bhlk", x, weight), None if bias is None else bias[:, None])


def project(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """X [B,L,d] times weight [d,H,k] plus bias [H,k] -> [B,L,H,k]."""
    return add_bias(jnp.einsum("bld,dhk->blhk", x, weight), bias)


def affine(x: Array, weight: Array, bias: Array | None) -> Array:
    """X [B,L,d] times weight [d,n] plus bias [n] if any -> [B,L,n]."""
    return add_bias(x @ weight, bias)


def add_bias(x: Array, bias: Array | None) -> Array:
    """x + bias, or x if there is no bias."""
    return x if bias is None else x + bias


def split_heads(x: Array, heads: int) -> Array:
    """X [B,L,d] -> [B,L,H,d/H], contiguous groups of channels."""
    return x.reshape(*x.shape[:2], heads, -1)


def zero_padded(x: Array, padding_mask: Array | None) -> Array:
    """X [B,L,...] with zeros at padded positions (padding_mask [B,L], True = a real token)."""
    if padding_mask is None:
        return x
    mask = padding_mask.reshape(*padding_mask.shape, *[1] * (x.ndim - 2))
    return jnp.where(mask, x, 0)


def attention_mask(x: Array, padding_mask: Array | None, causal: bool) -> Array | None:
    """[B or 1, 1, L or 1, L], True where query l may see key m; None if every query sees all."""
    L = x.shape[1]
    mask = None
    if causal:
        mask = jnp.tri(L, dtype=bool)[None, None]
    if padding_mask is not None:
        keys = padding_mask[:, None, None, :]
        mask = keys if mask is None else mask & keys
    return mask


def softmax(x: Array, axis: int) -> Array:
    """Softmax along `axis`, computed in float32 or float64.

    Of one example, without the axis for it: gradients of [1,H,L,L] took XLA twice as long. Of
    several, those of [B H,L,L] take longer and more memory.
    """
    wide = jnp.promote_types(x.dtype, jnp.float32)
    flat = x[0] if axis == -1 and x.ndim > 3 and x.shape[0] == 1 else x
    return jax.nn.softmax(flat.astype(wide), axis=axis).astype(x.dtype).reshape(x.shape)


def masked_softmax(logits: Array, mask: Array | None) -> Array:
    """Softmax over the keys; a masked key has weight 0, so a query with no key is all 0."""
    if mask is None:
        return softmax(logits, axis=-1)
    lowest = jnp.finfo(logits.dtype).min
    return jnp.where(mask, softmax(jnp.where(mask, logits, lowest), axis=-1), 0)


def mix(logits: list[Array], alpha: Array | None) -> Array:
    """sum_n w[n,h] S_n, with w = softmax(alpha) over n; alpha [n,H], [n], or None (weights 1)."""
    mixed = logits[0]
    if alpha is None:
        for s in logits[1:]:
            mixed = mixed + s
        return mixed
    w = softmax(alpha, axis=0).reshape(len(logits), 1, -1, 1, 1)
    mixed = w[0] * logits[0]
    for n, s in enumerate(logits[1:], start=1):
        mixed = mixed + w[n] * s
    return mixed


def glu(x: Array) -> Array:
    """X [B,L,2d] -> first half * sigmoid(second half) [B,L,d] (Dauphin et al. 2017)."""
    first, gate = jnp.split(x, 2, axis=-1)
    return first * jax.nn.sigmoid(gate)


def windows(x: Array, width: int, causal: bool) -> Array:
    """X [B,L,d] -> [B,L,d,K]: window t is x[t - P] to x[t - P + K - 1], with zeros outside."""
    padded = jnp.pad(x, ((0, 0), padding(width, causal), (0, 0)))
    return jnp.stack([padded[:, j : j + x.shape[1]] for j in range(width)], axis=-1)


def side_by_side_windows(x: Array, width: int, causal: bool) -> Array:
    """X [B,L,...] -> [B,L,K,...]: the windows of `windows`, positions before channels."""
    outside = [(0, 0)] * (x.ndim - 2)
    padded = jnp.pad(x, ((0, 0), padding(width, causal), *outside))
    return jnp.stack([padded[:, j : j + x.shape[1]] for j in range(width)], axis=2)


def convolve(x: Array, kernel: Array, causal: bool, groups: int = 1) -> Array:
    """Y[t] = sum_j X[t - P + j] kernel[j]; X [B,L,c], kernel [K,c/groups,o] -> [B,L,o]."""
    return lax.conv_general_dilated(
        x,
        kernel,
        window_strides=(1,),
        padding=[padding(kernel.shape[0], causal)],
        dimension_numbers=("NWC", "WIO", "NWC"),
        feature_group_count=groups,
    )
