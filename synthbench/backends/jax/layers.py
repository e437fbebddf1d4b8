"""The other layers of a stack around a mixer, in JAX; see synthbench/models/layers.py."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends.jax.mixers.numerics import (
    attention_mask,
    masked_softmax,
    project,
    zero_padded,
)
from synthbench.backends.jax.module import Declared
from synthbench.models.layers import LAYER_NORM_EPSILON, RMS_NORM_EPSILON, CrossAttention
from synthbench.models.model import Model
from synthbench.models.positions import buckets, buckets_back, sinusoids
from synthbench.models.spec import PositionKind


class Norm(Declared):
    """Layer norm or RMS norm over the channels, computed in float32 or float64."""

    def __init__(self, model: Model, dtype: Any) -> None:
        super().__init__(model.norm_parameters(), dtype)
        self.kind = model.spec.norm

    def __call__(self, x: Array) -> Array:
        p = self.tensors()
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        if self.kind == "rms":
            square = jnp.square(wide).mean(axis=-1, keepdims=True)
            return (wide * lax.rsqrt(square + RMS_NORM_EPSILON)).astype(x.dtype) * p["scale"]
        centred = wide - wide.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        normal = (centred * lax.rsqrt(variance + LAYER_NORM_EPSILON)).astype(x.dtype)
        return normal * p["scale"] + p["bias"]


class FeedForward(Declared):
    """relu(X up + up_bias) down + down_bias."""

    def __init__(self, model: Model, dtype: Any) -> None:
        super().__init__(model.feed_forward_parameters(), dtype)

    def __call__(self, x: Array) -> Array:
        p = self.tensors()
        hidden = x @ p["up"]
        if "up_bias" in p:
            hidden = hidden + p["up_bias"]
        y = jax.nn.relu(hidden) @ p["down"]
        return y + p["down_bias"] if "down_bias" in p else y


class Cross(Declared):
    """X [B,T,d] attends to source [B,S,d] by dot product."""

    def __init__(self, cross: CrossAttention, dtype: Any) -> None:
        super().__init__(cross.parameters(), dtype)

    def __call__(self, x: Array, source: Array, source_mask: Array | None) -> Array:
        p = self.tensors()
        query, key = project(x, p["query"]), project(source, p["key"])
        value = zero_padded(project(source, p["value"]), source_mask)
        logits = jnp.einsum("blhk,bmhk->bhlm", query * query.shape[-1] ** -0.5, key)
        weights = masked_softmax(logits, attention_mask(source, source_mask, causal=False))
        heads = jnp.einsum("bhlm,bmhk->blhk", weights, value)
        return jnp.einsum("blhk,hkd->bld", heads, p["output"])


def position_bias(table: Array, seq_len: int, causal: bool) -> Array:
    """Biases to add to logits [1,H,L,L], from a table of buckets and heads [BUCKETS,H]."""
    # int32, because JAX without float64 cannot always index with int64
    return jnp.moveaxis(table[jnp.asarray(buckets(seq_len, causal), jnp.int32)], -1, 0)[None]


def bucket_of_distance(like: Array, longest: int) -> Array:
    """The bucket [N] of a key that is 0, 1, ... positions before the query, placed as `like`."""
    return jnp.asarray(buckets_back(longest), jnp.int32)


def position_bias_row(table: Array, buckets: Array, position: Array, keys: int) -> Array:
    """Biases to add to the logits of one position [1,H,1,keys]; buckets [N] by distance."""
    distance = jnp.maximum(position - jnp.arange(keys), 0)
    return table[buckets[distance]].T[None, :, None]


def mean(x: Array, mask: Array | None) -> Array:
    """Mean of X [B,L,d] over the real tokens; zeros if there is none."""
    if mask is None:
        return x.mean(axis=1)
    weights = mask.astype(x.dtype)[..., None]
    return (x * weights).sum(axis=1) / jnp.maximum(weights.sum(axis=1), 1)


def embed(p: dict[str, Array], tokens: Array, positions: PositionKind) -> Array:
    """Token ids [B,L] -> X [B,L,d], plus position embeddings if the model has them."""
    x = p["embedding"][tokens]
    L = tokens.shape[1]
    if positions == "learned":
        return x + p["positions"][:L]
    if positions == "sinusoidal":
        return x + jnp.asarray(sinusoids(L, x.shape[-1]), x.dtype)
    return x


def waves(like: Array, longest: int, positions: PositionKind) -> Array | None:
    """The sinusoids of all positions [N,d], in the type of `like` [..,d]; None without them."""
    if positions != "sinusoidal":
        return None
    width = like.shape[-1]
    return jnp.asarray(sinusoids(longest, width), like.dtype)


def embed_one(p: dict[str, Array], tokens: Array, sinusoids: Array | None, at: Array) -> Array:
    """Token ids [B] of the position `at` -> X [B,1,d], as `embed`; `sinusoids` are its `waves`."""
    x = p["embedding"][tokens[:, None]]
    if "positions" in p:
        return x + p["positions"][at]
    return x if sinusoids is None else x + sinusoids[at]
