"""Linformer in JAX; the equation is in synthbench/mixers/linformer.py."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers.numerics import project, softmax, zero_padded
from synthbench.backends.kernel_record import REFERENCE_KERNEL, record_kernel
from synthbench.mixers.linformer import Linformer


def reference(
    mixer: Linformer,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """softmax(Q K'^T / sqrt(k)) V', then the output map."""
    L = x.shape[1]
    query = project(x, p["query"])
    key = zero_padded(project(x, p["key"]), padding_mask)
    value = zero_padded(project(x, p["value"]), padding_mask)
    key = jnp.einsum("bmhk,mr->brhk", key, p["key_projection"][:L])
    value = jnp.einsum("bmhk,mr->brhk", value, p[mixer.value_projection_name][:L])
    logits = jnp.einsum("blhk,brhk->bhlr", query * query.shape[-1] ** -0.5, key)
    heads = jnp.einsum("bhlr,brhk->blhk", softmax(logits, axis=-1), value)
    return jnp.einsum("blhk,hkd->bld", heads, p["output"])


def fused(
    mixer: Linformer,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The same; X is compressed along length before it is projected to keys and values.

    The two commute, and this way r rows are projected instead of L. Where that takes more
    multiplications, it is the reference form.
    """
    L, (d, H, k) = x.shape[1], p["key"].shape
    if not mixer.compresses_first(d, H * k, L):
        record_kernel(REFERENCE_KERNEL)
        return reference(mixer, p, x, padding_mask, causal)
    query, real = project(x, p["query"]), zero_padded(x, padding_mask)
    for_keys = jnp.einsum("bmd,mr->brd", real, p["key_projection"][:L])
    for_values = for_keys
    if mixer.value_projection_name != "key_projection":
        for_values = jnp.einsum("bmd,mr->brd", real, p[mixer.value_projection_name][:L])
    key, value = project(for_keys, p["key"]), project(for_values, p["value"])
    logits = jnp.einsum("blhk,brhk->bhlr", query * query.shape[-1] ** -0.5, key)
    heads = jnp.einsum("bhlr,brhk->blhk", softmax(logits, axis=-1), value)
    return jnp.einsum("blhk,hkd->bld", heads, p["output"])
