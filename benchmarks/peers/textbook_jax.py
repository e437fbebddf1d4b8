"""Each mixer in JAX written down from its paper: functions of weights with our names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from benchmarks.peers import table8_jax
from benchmarks.peers.pairs import parts

Weights = Mapping[str, Array]
Forward = Callable[[Weights, Array], Array]


def projected(p: Weights, name: str, x: Array) -> Array:
    """The heads [B,H,L,k] of the linear map of that name, with its bias if it has one."""
    y = jnp.einsum("bld,dhk->bhlk", x, p[name])
    return y + p[f"{name}_bias"][:, None] if f"{name}_bias" in p else y


def scores(query: Array, key: Array) -> Array:
    """Q K^T / sqrt(k)."""
    return query @ key.swapaxes(-1, -2) / jnp.sqrt(query.shape[-1])


def dot_product(p: Weights, x: Array) -> Array:
    """S = Q K^T / sqrt(k)."""
    return scores(projected(p, "dot_product.query", x), projected(p, "dot_product.key", x))


def random(p: Weights, x: Array) -> Array:
    """S is a parameter [H,L,L], the same for every example."""
    return p["random.logits"]


def fixed_random(p: Weights, x: Array) -> Array:
    """S is a constant [H,L,L]."""
    return jax.lax.stop_gradient(p["fixed_random.logits"])


def factorized_random(p: Weights, x: Array) -> Array:
    """S = left right^T."""
    return p["factorized_random.left"] @ p["factorized_random.right"].swapaxes(-1, -2)


def dense(p: Weights, x: Array) -> Array:
    """S = relu(X W1) W2, one W2 [k,L] per head, or one for all."""
    logits = jax.nn.relu(projected(p, "dense.hidden", x)) @ p["dense.logits"]
    return logits + p["dense.logits_bias"][:, None] if "dense.logits_bias" in p else logits


def factorized_dense(p: Weights, x: Array) -> Array:
    """S_ij = A_i[j // b] B_i[j % b]: both tiled to length a b, then multiplied."""
    hidden = jax.nn.relu(projected(p, "factorized_dense.hidden", x))
    return outer(hidden @ p["factorized_dense.a"], hidden @ p["factorized_dense.b"])


def separate_factorized_dense(p: Weights, x: Array) -> Array:
    """The same with a hidden layer for each factor."""
    hidden_a = jax.nn.relu(projected(p, "factorized_dense.hidden_a", x))
    hidden_b = jax.nn.relu(projected(p, "factorized_dense.hidden_b", x))
    return outer(hidden_a @ p["factorized_dense.a"], hidden_b @ p["factorized_dense.b"])


def outer(a: Array, b: Array) -> Array:
    """[..,m] and [..,n] -> [..,m n]: every product of both."""
    return jnp.repeat(a, b.shape[-1], axis=-1) * jnp.tile(b, a.shape[-1])


def synthesizer(functions: Sequence[Forward], p: Weights, x: Array) -> Array:
    """Y = softmax(S) V, heads side by side; several S are mixed by a softmax over their weights.

    Without weights they are added.
    """
    return attended([function(p, x) for function in functions], p, x)


def tied_synthesizer(p: Weights, x: Array) -> Array:
    """D+V in which the hidden layer of D is the query of V."""
    query, key = projected(p, "dot_product.query", x), projected(p, "dot_product.key", x)
    return attended([jax.nn.relu(query) @ p["dense.logits"], scores(query, key)], p, x)


def attended(logits: list[Array], p: Weights, x: Array) -> Array:
    """softmax of the mixed logits, times the values, then the output map."""
    if "alpha" in p:
        weights = jax.nn.softmax(p["alpha"], axis=0)[..., None, None]
        logits = [w * s for w, s in zip(weights, logits, strict=True)]
    attention = jax.nn.softmax(sum(logits[1:], logits[0]), axis=-1)
    y = jnp.einsum("bhlk,hkd->bld", attention @ projected(p, "value", x), p["output"])
    return y + p["output_bias"] if "output_bias" in p else y


def linformer(p: Weights, x: Array) -> Array:
    """softmax(Q (E K)^T / sqrt(k)) (F V), E and F compressing the length."""
    query, key, value = (projected(p, name, x) for name in ("query", "key", "value"))
    compress = p["key_projection"]
    key, value = compress.T @ key, p.get("value_projection", compress).T @ value
    attention = jax.nn.softmax(scores(query, key), axis=-1)
    return jnp.einsum("bhlk,hkd->bld", attention @ value, p["output"])


def convolution(kernel_of: Forward, p: Weights, x: Array) -> Array:
    """GLU, depthwise convolution over windows gathered side by side, output.

    With a bias on each of them and one more map after the convolution, where they have weights.
    """
    first, gate = jnp.split(x @ p["input"] + p.get("input_bias", 0), 2, axis=-1)
    u = first * jax.nn.sigmoid(gate)
    kernel = kernel_of(p, u)  # [B or 1, L or 1, H, K]
    width, length = kernel.shape[-1], x.shape[1]
    padded = jnp.pad(u, ((0, 0), (width // 2, width - 1 - width // 2), (0, 0)))
    windows = jnp.stack([padded[:, j : j + length] for j in range(width)], axis=-1)
    windows = windows.reshape(*u.shape[:2], kernel.shape[2], -1, width)  # [B,L,H,d/H,K]
    y = (windows * kernel[:, :, :, None]).sum(axis=-1).reshape(u.shape)
    if "pointwise" in p:
        y = (y + p["kernel_bias"]) @ p["pointwise"] + p["pointwise_bias"]
    return y @ p["output"] + p.get("output_bias", 0)


def light_kernel(p: Weights, u: Array) -> Array:
    """One kernel per head."""
    return jax.nn.softmax(p["kernel"], axis=-1)[None, None]


def dynamic_kernel(p: Weights, u: Array) -> Array:
    """A kernel predicted at each position."""
    return jax.nn.softmax(jnp.einsum("bld,dhw->blhw", u, p["generator"]), axis=-1)


COMPONENTS: dict[str, Forward] = {
    "V": dot_product,
    "R": random,
    "Fix": fixed_random,
    "FR": factorized_random,
    "D": dense,
    "FD": factorized_dense,
    **table8_jax.COMPONENTS,
}
BY_MIXER: dict[str, Forward] = {
    "linformer": linformer,
    "light_conv": partial(convolution, light_kernel),
    "dynamic_conv": partial(convolution, dynamic_kernel),
}
# What an option changes; other options change only the shapes of the weights.
BY_VARIANT: dict[str, Forward] = {
    "FD(hidden=separate)": partial(synthesizer, (separate_factorized_dense,)),
    "D(tie_query=true)+V": tied_synthesizer,
}


def layer(variant: str) -> Forward:
    """The plain function for a variant of ours."""
    names = parts(variant)
    special = BY_VARIANT.get(variant) or BY_MIXER.get(names[0])
    return special or partial(synthesizer, tuple(COMPONENTS[name] for name in names))
