"""cuDNN's attention in JAX: products of features plus tables of logits, in half precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.terms import Bias, Features, Term
from synthbench.backends.jax.placement import compute_capability, platform
from synthbench.backends.jax.private_api import (
    cudnn_attention,
    cudnn_version,
    has_cudnn_attention,
)

ONE_SIZE = "cuDNN attention"
UNPADDED = "cuDNN attention, values of their own size"
WITH_TABLE = "cuDNN attention with a table of logits"
PATHS = (ONE_SIZE, UNPADDED, WITH_TABLE)
# What cuDNN has: attention from this compute capability on, with up to so many features; from the
# newer capability on more of them, and with this version values of another size.
LEAST_CAPABILITY, MOST_FEATURES = (8, 0), 128
NEWER_CAPABILITY, MOST_FEATURES_OF_NEWER = (9, 0), 256
LEAST_VERSION_FOR_UNEQUAL = 91000


def paths(
    terms: tuple[Term, ...], value: Array | jax.ShapeDtypeStruct, padding_mask: Array | None
) -> tuple[list[str], list[str]]:
    """What cuDNN has for this attention: to be used without a measurement, and to be measured.

    `value` [B,L,H,k].
    """
    pair, *tables = terms
    if not can(value) or padding_mask is not None or not isinstance(pair, Features):
        return [], []
    features, channels = round_up(pair.query.shape[-1]), round_up(value.shape[-1])
    widest = max(features, channels)
    newer = compute_capability() >= NEWER_CAPABILITY
    if widest > (MOST_FEATURES_OF_NEWER if newer else MOST_FEATURES):
        return [], []
    if tables:
        even = value.shape[1] % 2 == 0  # cuDNN's gradient of a table asks for it
        return [], [WITH_TABLE] if even and all(map(is_table, tables)) else []
    others = [UNPADDED] if features != channels and newer and can_be_unequal() else []
    return ([ONE_SIZE], others) if widest <= MOST_FEATURES else ([], [ONE_SIZE, *others])


def can(value: Array | jax.ShapeDtypeStruct) -> bool:
    """Whether cuDNN is there, and has attention for this device and this type."""
    half = value.dtype in (jnp.bfloat16, jnp.float16)
    if platform() != "cuda" or not half or compute_capability() < LEAST_CAPABILITY:
        return False
    return cudnn_version() is not None


def can_be_unequal() -> bool:
    """Whether features and values may have different sizes."""
    return (cudnn_version() or 0) >= LEAST_VERSION_FOR_UNEQUAL and has_cudnn_attention()


def is_table(t: Term) -> bool:
    """Whether a term is a table of logits that all examples share."""
    return isinstance(t, Bias) and t.table.shape[0] == 1


def round_up(features: int) -> int:
    """The next multiple of 8."""
    return -(-features // 8) * 8


def attend(terms: tuple[Term, ...], value: Array, causal: bool, path: str) -> Array:
    """One call of scale 1, by one of PATHS; value [B,L,H,k] -> [B,H,L,k]."""
    pair, *tables = terms
    assert isinstance(pair, Features)
    B, L, H, k = value.shape
    features, channels = round_up(pair.query.shape[-1]), round_up(k)
    if path != UNPADDED:
        features = channels = max(features, channels)

    def widened(x: Array, width: int) -> Array:
        whole = jnp.broadcast_to(x, (B, L, H, x.shape[-1]))
        return jnp.pad(whole, ((0, 0), (0, 0), (0, 0), (0, width - x.shape[-1])))

    query, key = (widened(x.swapaxes(1, 2), features) for x in (pair.query, pair.key))
    values = widened(value, channels)
    if path == UNPADDED:
        heads = cudnn_attention(query, key, values, causal=causal)
    else:
        heads = jax.nn.dot_product_attention(
            query, key, values, table_of(tables, L, value.dtype),
            scale=1.0, is_causal=causal, implementation="cudnn",
        )  # fmt: skip
    return heads[..., :k].swapaxes(1, 2)


def table_of(tables: list[Term], seq_len: int, dtype: jnp.dtype) -> Array | None:
    """The sum of tables [1,H,L,L]; None if there are none."""
    if not tables:
        return None
    first, *others = (t.logits(seq_len, keys_first=False)[:, :, :seq_len] for t in tables)
    return sum(others, first).astype(dtype)
