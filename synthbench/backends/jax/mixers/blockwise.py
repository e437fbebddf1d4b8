"""softmax(logits) times values by blocks of queries: no [L,L] in memory, forward or backward.

Each turn of one loop makes the logits (terms.py) of a block of queries, transposed (keys first: so
XLA's products on a CPU take them as they lie), and the backward pass makes them again from the row
statistics, as FlashAttention does (Dao et al. 2022, arXiv 2205.14135).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends.jax.mixers.terms import Bias, Term, mixed

Terms = tuple[Term, ...]

# Logits in hand in one turn, a block of queries times L, by measurement: 1 MB in float32, which
# stays in a core's cache.
TURN_LOGITS = 2**18
SMALLEST_BLOCK, LARGEST_BLOCK = 32, 256


@dataclass(frozen=True)
class Blocks:
    """The turns of the loop: which examples, heads and queries are in hand together."""

    batch: int
    heads: int
    seq_len: int
    block: int
    one_by_one: bool  # an example and a head a turn (CPU), or all of them (accelerators)
    shared_first: bool  # examples innermost: they add to one gradient [H,L,L]
    causal: bool

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many turns for examples, heads and blocks of queries."""
        queries = -(-self.seq_len // self.block)
        return (self.batch, self.heads, queries) if self.one_by_one else (1, 1, queries)

    def place(self, turn: Array) -> tuple[Array, Array, Array]:
        """Example, head and first query of a turn."""
        batch, heads, queries = self.counts
        if self.shared_first:
            rest, b = jnp.divmod(turn, batch)
            h, i = jnp.divmod(rest, queries)
        else:
            rest, i = jnp.divmod(turn, queries)
            b, h = jnp.divmod(rest, heads)
        return b, h, i * self.block

    def take(self, x: Array, place: tuple[Array, Array, Array], queries: bool) -> Array:
        """What x [B or 1, H or 1, ...] holds for a turn; its rows where the axis is of queries."""
        start, size = self._where(x, place, queries)
        return lax.dynamic_slice(x, start, size)

    def put(self, x: Array, part: Array, place: tuple[Array, Array, Array], queries: bool) -> Array:
        """x with a turn's part added."""
        start, size = self._where(x, place, queries)
        there = lax.dynamic_slice(x, start, size)
        return lax.dynamic_update_slice(x, there + part.astype(x.dtype), start)

    def _where(self, x: Array, place: tuple[Array, Array, Array], queries: bool) -> Any:
        b, h, first = place
        zero = jnp.zeros_like(first)
        alone = self.one_by_one
        start = [b if alone and x.shape[0] > 1 else zero, h if alone and x.shape[1] > 1 else zero]
        size = [1, 1] if alone else list(x.shape[:2])
        start += [first if queries else zero] + [zero] * (x.ndim - 3)
        size += [self.block if queries else x.shape[2], *x.shape[3:]]
        return start, size

    def loop(self, turn: Callable[[Any, Any], Any], carried: Any) -> Any:
        """Carry something through all turns, each told its place."""
        batch, heads, queries = self.counts

        def body(n: Array, carried: Any) -> Any:
            return turn(self.place(n), carried)

        return lax.fori_loop(0, batch * heads * queries, body, carried)


def attend(
    terms: Terms,
    value: Array,
    key_mask: Array | None,
    *,
    causal: bool,
    one_by_one: bool,
    normalized: bool = True,
) -> Array:
    """softmax(sum of terms) value: value [B,H,L,c], key_mask [B,L] -> [B,H,L,c].

    A query with no key left gives zeros. Unnormalized, the weights are exp(S - max S) of each row,
    to be divided by their sum over the same keys: the maximum counts as a constant.
    """
    B, H, L, _ = value.shape
    block = block_size(L)
    biased = any(isinstance(t, Bias) for t in terms)
    blocks = Blocks(B, H, L, block, one_by_one, biased, causal)
    whole = -(-L // block) * block
    padded = tuple(pad_queries(t, whole) for t in terms)
    mask = None if key_mask is None else key_mask[:, None, :, None]
    return _attend(blocks, normalized, padded, value, mask)[:, :, :L]


def block_size(seq_len: int) -> int:
    """Queries of a block: L itself where short, else a divisor of L where there is one."""
    most = min(LARGEST_BLOCK, max(SMALLEST_BLOCK, TURN_LOGITS // seq_len))
    if seq_len <= most:
        return seq_len
    divisors = (n for n in range(most, most // 2, -1) if seq_len % n == 0)
    return next(divisors, most)


def pad_queries(t: Term, length: int) -> Term:
    """A term whose query axes are at least so long."""

    def pad(x: Array) -> Array:
        return jnp.pad(x, ((0, 0), (0, 0), (0, max(0, length - x.shape[2])), (0, 0)))

    return t.having({name: pad(x) for name, x in t.arrays.items() if name in t.per_query})


def pick(blocks: Blocks, terms: Terms, place: Any) -> Terms:
    """The terms of one turn."""
    return tuple(
        t.having({n: blocks.take(x, place, n in t.per_query) for n, x in t.arrays.items()})
        for t in terms
    )


def trained(t: Term) -> dict[str, Array]:
    """The arrays of a term whose gradient is made."""
    constant = isinstance(t, Bias) and t.constant
    return {name: x for name, x in t.arrays.items() if not (constant and name == "table")}


def seen(blocks: Blocks, mask: Array | None, place: Any) -> Array | None:
    """[B or 1, 1, L, block or 1], True where a query of the turn may see the key."""
    visible = None if mask is None else blocks.take(mask, place, False)
    if blocks.causal:
        keys = lax.broadcasted_iota(jnp.int32, (1, 1, blocks.seq_len, blocks.block), 2)
        queries = lax.broadcasted_iota(jnp.int32, (1, 1, blocks.seq_len, blocks.block), 3)
        before = keys <= queries + place[2]
        visible = before if visible is None else visible & before
    return visible


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(
    blocks: Blocks, normalized: bool, terms: Terms, value: Array, mask: Array | None
) -> Array:
    return _forward(blocks, normalized, terms, value, mask)[0]


def _forward(
    blocks: Blocks, normalized: bool, terms: Terms, value: Array, mask: Array | None
) -> tuple[Array, Any]:
    B, H, L, c = value.shape
    length = blocks.counts[2] * blocks.block
    wide = jnp.promote_types(value.dtype, jnp.float32)

    def turn(place: Any, made: Any) -> Any:
        y, statistics = made
        logits = mixed(pick(blocks, terms, place), L)
        visible = seen(blocks, mask, place)
        if visible is not None:
            logits = jnp.where(visible, logits, jnp.finfo(wide).min)
        highest = logits.max(axis=2, keepdims=True)
        weights = jnp.exp(logits - highest)
        if visible is not None:
            weights = jnp.where(visible, weights, 0)
        rows = weights.astype(value.dtype).mT @ blocks.take(value, place, False)
        statistic = highest
        if normalized:
            total = weights.sum(axis=2, keepdims=True)
            total = jnp.where(total == 0, 1, total)
            rows = rows.astype(wide) / total.mT
            statistic = highest + jnp.log(total)
        return (
            blocks.put(y, rows, place, True),
            blocks.put(statistics, statistic.mT, place, True),
        )

    empty = jnp.zeros((B, H, length, c), value.dtype), jnp.zeros((B, H, length, 1), wide)
    y, statistics = blocks.loop(turn, empty)
    return y, (terms, value, mask, y if normalized else None, statistics)


def _backward(blocks: Blocks, normalized: bool, saved: Any, dy: Array) -> tuple[Any, Any, None]:
    terms, value, mask, y, statistics = saved
    wide = statistics.dtype
    offset = (dy.astype(wide) * y).sum(axis=-1, keepdims=True) if normalized else None

    def turn(place: Any, made: Any) -> Any:
        d_terms, d_value = made
        parts = pick(blocks, terms, place)
        logits, pull = jax.vjp(lambda parts: mixed(parts, blocks.seq_len), parts)
        weights = jnp.exp(logits - blocks.take(statistics, place, True).mT)
        visible = seen(blocks, mask, place)
        if visible is not None:
            weights = jnp.where(visible, weights, 0)
        d_rows = blocks.take(dy, place, True)
        d_logits = (blocks.take(value, place, False) @ d_rows.mT).astype(wide)
        if offset is not None:
            d_logits = d_logits - blocks.take(offset, place, True).mT
        d_value = blocks.put(d_value, weights.astype(value.dtype) @ d_rows, place, False)
        (d_parts,) = pull(lax.optimization_barrier(weights * d_logits))
        d_terms = [
            {n: blocks.put(x, getattr(part, n), place, n in t.per_query) for n, x in made.items()}
            for t, part, made in zip(terms, d_parts, d_terms, strict=True)
        ]
        return d_terms, d_value

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, wide), ([trained(t) for t in terms], value))
    d_terms, d_value = blocks.loop(turn, zeros)
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
