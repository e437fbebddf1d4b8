"""The blocks of heads, examples and queries of blockwise attention, in JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends.kernel_record import threshold
from synthbench.kernel import Kernel

# Sizes of a block to choose from, the first without a measurement: queries at most, and logits. A
# CPU takes one example and head at a time; the gradient of a table of logits is accumulated in
# place: few rows at once. A GPU takes all examples and heads together and needs many logits to be
# filled; besides, each iteration adds to the whole gradient of the values.
BLOCK_SIZES = {
    "cpu": ({"queries": 1024, "logits": 2**21}, {"queries": 256, "logits": 2**19}),
    "cpu, with a table": ({"queries": 256, "logits": 2**20}, {"queries": 1024, "logits": 2**21}),
    "cuda": (
        {"queries": 512, "logits": 2**27},
        {"queries": 2048, "logits": 2**28},
        {"queries": 128, "logits": 2**25},
    ),
}
ALL_TOGETHER_UP_TO = 512  # on a CPU: up to this length, all queries are one block
FEWEST_QUERIES = {"cpu": 32, "cuda": 128}


@dataclass(frozen=True)
class Blocks:
    """The iterations of the loop: which examples, heads and queries each of them takes."""

    batch: int
    heads: int
    seq_len: int
    block: int
    examples_apart: bool  # one example per iteration, or all of them
    heads_apart: bool
    causal: bool

    @property
    def counts(self) -> tuple[int, int, int]:
        """Iterations over examples, heads and blocks of queries."""
        queries = -(-self.seq_len // self.block)
        batch = self.batch if self.examples_apart else 1
        return batch, self.heads if self.heads_apart else 1, queries

    def place(self, iteration: Array) -> tuple[Array, Array, Array]:
        """Example, head and first query of an iteration."""
        _, heads, queries = self.counts
        rest, i = jnp.divmod(iteration, queries)
        b, h = jnp.divmod(rest, heads)
        return b, h, i * self.block

    def part_of(self, x: Array, place: tuple[Array, Array, Array], queries: bool) -> Array:
        """The part of x [B or 1, H or 1, ...] for an iteration; its queries only, if x has them."""
        start, size = self._where(x, place, queries)
        return lax.dynamic_slice(x, start, size)

    def add(self, x: Array, part: Array, place: tuple[Array, Array, Array], queries: bool) -> Array:
        """x with the part of an iteration added."""
        start, size = self._where(x, place, queries)
        before = lax.dynamic_slice(x, start, size)
        return lax.dynamic_update_slice(x, before + part.astype(x.dtype), start)

    def _where(self, x: Array, place: tuple[Array, Array, Array], queries: bool) -> Any:
        zero = jnp.zeros_like(place[2])
        start, size = [], []
        apart = self.examples_apart, self.heads_apart
        for index, length, one in zip(place[:2], x.shape[:2], apart, strict=True):
            start.append(index if one and length > 1 else zero)
            size.append(1 if one else length)
        start += [place[2] if queries else zero] + [zero] * (x.ndim - 3)
        size += [self.block if queries else x.shape[2], *x.shape[3:]]
        return start, size

    def loop(self, body: Callable[[Any, Any], Any], carried: Any) -> Any:
        """Run `body(place, carried)` for every iteration."""
        batch, heads, queries = self.counts

        def numbered(n: Array, carried: Any) -> Any:
            return body(self.place(n), carried)

        return lax.fori_loop(0, batch * heads * queries, numbered, carried)


def sizes(platform: str, *, table: bool) -> tuple[dict[str, int], ...]:
    """The sizes of blocks to choose from on a platform; `table`: a term is a table of logits."""
    return BLOCK_SIZES["cuda" if platform != "cpu" else "cpu, with a table" if table else "cpu"]


def block_size(
    seq_len: int, logits: int, kernel: Kernel, fewest: int, all_together_up_to: int = 0
) -> int:
    """Queries per block: L if it is short, else a divisor of L if there is one.

    `logits`: of each query, in all examples and heads of an iteration.
    """
    most = min(kernel.queries, max(fewest, kernel.logits // logits))
    most = threshold(max(most, min(all_together_up_to, seq_len)))
    if seq_len <= most:
        return seq_len
    divisors = (n for n in range(most, most // 2, -1) if seq_len % n == 0)
    return next(divisors, most)
