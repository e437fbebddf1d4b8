"""Each mixer in JAX written down from its paper: functions of weights with our names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

Weights = Mapping[str, Array]
Forward = Callable[[Weights, Array], Array]


def dot_product(p: Weights, x: Array) -> Array:
    """S = Q K^T / sqrt(k)."""
    query = jnp.einsum("bld,dhk->bhlk", x, p["dot_product.query"])
    key = jnp.einsum("bld,dhk->bhlk", x, p["dot_product.key"])
    return query @ key.swapaxes(-1, -2) / jnp.sqrt(query.shape[-1])


def random(p: Weights, x: Array) -> Array:
    """S is a parameter [H,L,L], the same for every example."""
    return p["random.logits"]


def factorized_random(p: Weights, x: Array) -> Array:
    """S = left right^T."""
    return p["factorized_random.left"] @ p["factorized_random.right"].swapaxes(-1, -2)


def dense(p: Weights, x: Array) -> Array:
    """S = relu(X W1) W2, one W2 [k,L] per head."""
    hidden = jax.nn.relu(jnp.einsum("bld,dhk->bhlk", x, p["dense.hidden"]))
    return hidden @ p["dense.logits"]


def factorized_dense(p: Weights, x: Array) -> Array:
    """S_ij = A_i[j // b] B_i[j % b]: both tiled to length a b, then multiplied."""
    hidden = jax.nn.relu(jnp.einsum("bld,dhk->bhlk", x, p["factorized_dense.hidden"]))
    a, b = hidden @ p["factorized_dense.a"], hidden @ p["factorized_dense.b"]
    return jnp.repeat(a, b.shape[-1], axis=-1) * jnp.tile(b, a.shape[-1])


def synthesizer(parts: tuple[Forward, ...], p: Weights, x: Array) -> Array:
    """Y = softmax(S) V, heads side by side; several S are mixed by a softmax over their weights."""
    logits = [part(p, x) for part in parts]
    if len(parts) > 1:
        weights = jax.nn.softmax(p["alpha"], axis=0)[:, :, None, None]
        logits = [w * s for w, s in zip(weights, logits, strict=True)]
    attention = jax.nn.softmax(sum(logits[1:], logits[0]), axis=-1)
    value = jnp.einsum("bld,dhk->bhlk", x, p["value"])
    return jnp.einsum("bhlk,hkd->bld", attention @ value, p["output"])


def linformer(p: Weights, x: Array) -> Array:
    """softmax(Q (E K)^T / sqrt(k)) (F V), E and F compressing the length."""
    query, key, value = (
        jnp.einsum("bld,dhk->bhlk", x, p[name]) for name in ("query", "key", "value")
    )
    key = p["key_projection"].T @ key
    value = p["value_projection"].T @ value
    scores = query @ key.swapaxes(-1, -2) / jnp.sqrt(query.shape[-1])
    return jnp.einsum("bhlk,hkd->bld", jax.nn.softmax(scores, axis=-1) @ value, p["output"])


def convolution(kernel_of: Forward, p: Weights, x: Array) -> Array:
    """GLU, depthwise convolution over windows gathered side by side, output."""
    first, gate = jnp.split(x @ p["input"], 2, axis=-1)
    u = first * jax.nn.sigmoid(gate)
    kernel = kernel_of(p, u)  # [B or 1, L or 1, H, K]
    width, length = kernel.shape[-1], x.shape[1]
    padded = jnp.pad(u, ((0, 0), (width // 2, width - 1 - width // 2), (0, 0)))
    windows = jnp.stack([padded[:, j : j + length] for j in range(width)], axis=-1)
    windows = windows.reshape(*u.shape[:2], kernel.shape[2], -1, width)  # [B,L,H,d/H,K]
    y = (windows * kernel[:, :, :, None]).sum(axis=-1)
    return y.reshape(u.shape) @ p["output"]


def light_kernel(p: Weights, u: Array) -> Array:
    """One kernel per head."""
    return jax.nn.softmax(p["kernel"], axis=-1)[None, None]


def dynamic_kernel(p: Weights, u: Array) -> Array:
    """A kernel predicted at each position."""
    return jax.nn.softmax(jnp.einsum("bld,dhw->blhw", u, p["generator"]), axis=-1)


BY_VARIANT: dict[str, Forward] = {
    "V": partial(synthesizer, (dot_product,)),
    "R": partial(synthesizer, (random,)),
    "FR": partial(synthesizer, (factorized_random,)),
    "D": partial(synthesizer, (dense,)),
    "FD": partial(synthesizer, (factorized_dense,)),
    "R+V": partial(synthesizer, (random, dot_product)),
    "FR+V": partial(synthesizer, (factorized_random, dot_product)),
    "D+V": partial(synthesizer, (dense, dot_product)),
    "linformer": linformer,
    "light_conv": partial(convolution, light_kernel),
    "dynamic_conv": partial(convolution, dynamic_kernel),
}
