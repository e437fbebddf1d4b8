"""Attention by blocks of queries: never [L,L] in memory, forward or backward.

Each iteration of one loop computes the logits (terms.py) of a block of queries, and the backward
pass computes them again from the row statistics, as FlashAttention does (Dao et al. 2022, arXiv
2205.14135).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends.jax.mixers.blocks import (
    ALL_TOGETHER_UP_TO,
    FEWEST_QUERIES,
    Blocks,
    block_size,
)
from synthbench.backends.jax.mixers.terms import Bias, Outer, Rows, Term, mixed, product
from synthbench.backends.jax.placement import platform
from synthbench.backends.kernel_record import threshold
from synthbench.kernel import Kernel

Terms = tuple[Term, ...]


# Without gradients, up to this many logits [B,H,L,L] are one iteration: a CPU's cores share the
# work of an iteration, and smaller ones would have too little for them.
MOST_TOGETHER = 2**22


def attend(
    terms: Terms,
    value: Array,
    key_mask: Array | None,
    *,
    causal: bool,
    kernel: Kernel,
    normalized: bool = True,
) -> Array:
    """softmax(sum of terms) value: value [B,H,L,c], key_mask [B,L] -> [B,H,L,c].

    A query with no key left gives zeros. Unnormalized, the weights are exp(S - max S) of each row,
    to be divided by their sum over the same keys: the maximum counts as a constant.
    """
    B, H, L, _ = value.shape
    # Examples that share a bias stay together: it is read once, and its gradient is written once.
    table = any(isinstance(t, Bias) and t.batch == 1 for t in terms)
    one_head = platform() == "cpu"
    if one_head:
        block = block_size(L, L, kernel, FEWEST_QUERIES["cpu"], ALL_TOGETHER_UP_TO)
    else:
        block = block_size(L, B * H * L, kernel, FEWEST_QUERIES["cuda"])
    blocks = Blocks(B, H, L, block, one_head and not table, one_head, causal)
    whole = -(-L // block) * block
    padded = tuple(pad_queries(t, whole) for t in terms)
    mask = None if key_mask is None else key_mask[:, None, :, None]
    return _attend(blocks, normalized, padded, value, mask)[:, :, :L]


def pad_queries(t: Term, length: int) -> Term:
    """A term whose query axes have at least this length."""

    def pad(x: Array) -> Array:
        return jnp.pad(x, ((0, 0), (0, 0), (0, max(0, length - x.shape[2])), (0, 0)))

    return t.having({name: pad(x) for name, x in t.arrays.items() if name in t.per_query})


def pick(blocks: Blocks, terms: Terms, place: Any) -> Terms:
    """The terms of one iteration."""
    return tuple(
        t.having({n: blocks.part_of(x, place, n in t.per_query) for n, x in t.arrays.items()})
        for t in terms
    )


def seen(blocks: Blocks, mask: Array | None, place: Any, keys_first: bool) -> Array | None:
    """[B or 1, 1, block or 1, L], or [.., L, block or 1]: True where a query may see the key."""
    visible = None if mask is None else blocks.part_of(mask, place, False)
    if visible is not None and not keys_first:
        visible = visible.mT
    if blocks.causal:
        shape = (1, 1, blocks.block, blocks.seq_len)
        keys, queries = 3, 2
        if keys_first:
            shape, keys, queries = (*shape[:2], *shape[:1:-1]), 2, 3
        before = lax.broadcasted_iota(jnp.int32, shape, keys) <= place[2] + lax.broadcasted_iota(
            jnp.int32, shape, queries
        )
        visible = before if visible is None else visible & before
    return visible


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(
    blocks: Blocks, normalized: bool, terms: Terms, value: Array, mask: Array | None
) -> Array:
    B, H, L, _ = value.shape
    if math.prod((B, H, L, L)) <= threshold(MOST_TOGETHER):
        length = blocks.counts[2] * blocks.block
        blocks = replace(blocks, block=length, examples_apart=False, heads_apart=False)
    return _forward(blocks, normalized, terms, value, mask)[0]


def _forward(
    blocks: Blocks, normalized: bool, terms: Terms, value: Array, mask: Array | None
) -> tuple[Array, Any]:
    B, H, L, c = value.shape
    length = blocks.counts[2] * blocks.block
    wide = jnp.promote_types(value.dtype, jnp.float32)

    def iteration(place: Any, sums: Any) -> Any:
        y, statistics = sums
        logits = mixed(pick(blocks, terms, place), L, keys_first=False)
        visible = seen(blocks, mask, place, keys_first=False)
        if visible is not None:
            logits = jnp.where(visible, logits, jnp.finfo(wide).min)
        statistic = logits.max(axis=-1, keepdims=True)
        weights = jnp.exp(logits - statistic)
        if visible is not None:
            weights = jnp.where(visible, weights, 0)
        rows = weights.astype(value.dtype) @ blocks.part_of(value, place, False)
        if normalized:
            total = weights.sum(axis=-1, keepdims=True)
            total = jnp.where(total == 0, 1, total)
            rows = rows.astype(wide) / total
            statistic = statistic + jnp.log(total)
        return blocks.add(y, rows, place, True), blocks.add(statistics, statistic, place, True)

    empty = jnp.zeros((B, H, length, c), value.dtype), jnp.zeros((B, H, length, 1), wide)
    y, statistics = blocks.loop(iteration, empty)
    return y, (terms, value, mask, y if normalized else None, statistics)


def _backward(blocks: Blocks, normalized: bool, saved: Any, dy: Array) -> tuple[Any, Any, None]:
    terms, value, mask, y, statistics = saved
    wide = statistics.dtype
    offset = (dy.astype(wide) * y).sum(axis=-1, keepdims=True) if normalized else None

    # XLA's products on a CPU read their operands in memory order when keys come first; sums over
    # keys (of an outer product) and rows of a table are read in the other order. The product of
    # the transposed weights then takes three times as long as its transpose.
    on_cpu = platform() == "cpu"
    together = blocks.examples_apart or blocks.batch == 1
    in_rows = (Outer, Bias, Rows) if on_cpu else (Outer,)
    keys_first = together and not any(isinstance(t, in_rows) for t in terms)
    by_column = on_cpu and not keys_first
    # On a GPU, one kernel would make both the weights and the gradient of the logits, so that both
    # are in memory. From an outer product, weights can be made a second time without reading any.
    one_by_one = not on_cpu and all(isinstance(t, Outer) for t in terms)

    def as_weights(x: Array) -> Array:
        return x.mT if keys_first else x

    def iteration(place: Any, sums: Any) -> Any:
        d_terms, d_value = sums
        parts = pick(blocks, terms, place)
        values, d_rows = blocks.part_of(value, place, False), blocks.part_of(dy, place, True)

        def logits_of(parts: Terms) -> Array:  # of the examples and heads of this iteration
            logits = mixed(parts, blocks.seq_len, keys_first)
            return jnp.broadcast_to(logits, (*values.shape[:2], *logits.shape[2:]))

        logits, pull = jax.vjp(logits_of, parts)
        weights = jnp.exp(logits - as_weights(blocks.part_of(statistics, place, True)))
        visible = seen(blocks, mask, place, keys_first)
        if visible is not None:
            weights = jnp.where(visible, weights, 0)
        typed = weights.astype(value.dtype)
        by_key = typed if keys_first else typed.mT
        d_values = d_rows.mT @ typed if by_column else by_key @ d_rows
        d_value = blocks.add(d_value, d_values, place, False)
        if one_by_one:
            d_value, d_rows = lax.optimization_barrier((d_value, d_rows))
        d_logits = product(d_rows, values, keys_first).astype(wide)
        if offset is not None:
            d_logits = d_logits - as_weights(blocks.part_of(offset, place, True))
        (d_parts,) = pull(lax.optimization_barrier(weights * d_logits))
        d_terms = [
            {n: blocks.add(x, part.arrays[n], place, n in t.per_query) for n, x in made.items()}
            for t, part, made in zip(terms, d_parts, d_terms, strict=True)
        ]
        return d_terms, d_value

    sums = [t.trained for t in terms], value.mT if by_column else value
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, wide), sums)
    d_terms, d_value = blocks.loop(iteration, zeros)
    if by_column:
        d_value = d_value.mT
    return (
        tuple(
            t.having(
                dict.fromkeys(t.arrays)
                | {name: x.astype(value.dtype) for name, x in gradients.items()}
            )
            for t, gradients in zip(terms, d_terms, strict=True)
        ),
        d_value.astype(value.dtype),
        None,
    )


_attend.defvjp(_forward, _backward)
