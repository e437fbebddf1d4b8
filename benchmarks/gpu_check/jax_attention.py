"""cuDNN's attention through JAX, on the shapes that forms give it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Literal

from benchmarks.gpu_check.finding import ABSENT, Finding, Found, Settings, tried
from benchmarks.gpu_check.torch_attention import BATCH, HEADS, LENGTHS, TOLERANCE

STEP = "jax_attention"
How = Literal["cudnn", "xla"]
SIZES = (8, 64, 128)


def run(settings: Settings) -> Iterator[Finding]:
    """Each shape with gradients, against the plain equations in float32."""
    implementations: tuple[How, ...] = ("cudnn", "xla") if settings.is_cuda else ("xla",)
    if not settings.is_cuda:
        yield Finding(STEP, "cudnn", ABSENT, reason="only on a GPU")
    lengths = LENGTHS[:1] if settings.small else LENGTHS
    for how, seq_len, size in itertools.product(implementations, lengths, SIZES):
        name = f"{how}, L {seq_len}, size {size}"
        yield tried(STEP, name, partial(one, how, seq_len, size))


def one(implementation: How, seq_len: int, size: int) -> Found:
    """The largest errors of outputs and gradients, over the largest value of each."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    keys = jax.random.split(jax.random.key(0), 4)
    shape = (BATCH, seq_len, HEADS, size)
    query, key, value, dy = (jax.random.normal(k, shape).astype(jnp.bfloat16) for k in keys)

    def attention(how: How, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, implementation=how)

    def all_of(how: How, *inputs: jax.Array) -> list[jax.Array]:
        y, pull = jax.vjp(lambda *qkv: attention(how, *qkv), *inputs)
        return [y, *pull(dy.astype(y.dtype))]

    got = jax.jit(lambda *qkv: all_of(implementation, *qkv))(query, key, value)
    with jax.default_matmul_precision("highest"):
        wide = (x.astype(jnp.float32) for x in (query, key, value))
        want = jax.jit(lambda *qkv: all_of("xla", *qkv))(*wide)
    errors = []
    for g, w in zip(got, want, strict=True):
        a, b = np.asarray(g, np.float32), np.asarray(w, np.float32)
        errors.append(float(np.abs(a - b).max() / np.abs(b).max()))
    names = ("outputs", "queries", "keys", "values")
    figure = ", ".join(f"{name} {error:.1e}" for name, error in zip(names, errors, strict=True))
    return all(error <= TOLERANCE for error in errors), figure
