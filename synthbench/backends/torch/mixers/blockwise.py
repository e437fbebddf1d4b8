"""Attention by blocks of queries; the backward pass recomputes the weights of each block.

What is in memory beside inputs, outputs and gradients is a few blocks [heads, B, queries, L], so
that it grows with L and not with its square. Tensors have heads first: [h or 1, b or 1, l, ..].
Where one block holds all, its weights are kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from synthbench.backends.kernel_record import threshold
from synthbench.backends.torch.cpu_matmul import multiply_of
from synthbench.backends.torch.mixers.numerics import Times
from synthbench.backends.torch.placement import is_accelerator
from synthbench.backends.torch.private_api import softmax_backward
from synthbench.kernel import Kernel

# Sizes of a block to choose from, the first without a measurement: queries at most, then several
# examples and heads up to this many logits. Few stay in a CPU's cache and reuse the memory of the
# block before; a GPU needs many to be filled, and launches the same kernels for each block.
SIZES = {
    "cpu": ({"queries": 512, "logits": 2**18}, {"queries": 1024, "logits": 2**20}),
    "cuda": (
        {"queries": 128, "logits": 2**26},
        {"queries": 512, "logits": 2**24},
        {"queries": 2048, "logits": 2**28},
    ),
}


@dataclass(frozen=True)
class Rows:
    """One term of the logits: `rows(keys, *by_query, *whole)` -> [h, b or 1, l, keys].

    Tensors have four axes; those `by_query` have the queries third, and come cut to a block.
    """

    rows: Callable[..., Tensor]
    by_query: tuple[Tensor, ...]
    whole: tuple[Tensor, ...] = ()


Features = tuple[Tensor, Tensor]  # of queries and of keys: the logits are their product


def sizes(device: torch.device) -> tuple[dict[str, int], ...]:
    """The sizes of blocks to choose from on a device: those of CUDA on every accelerator."""
    return SIZES["cuda" if is_accelerator(device) else "cpu"]


def attend(
    pair: Features | None,
    terms: Sequence[Rows],
    value: Tensor,
    key_mask: Tensor | None = None,
    causal: bool = False,
    *,
    kernel: Kernel,
) -> Tensor:
    """softmax(query features key features^T + terms) value [h,b,m,c] -> [h,b,l,c].

    `pair`: query features [h,b or 1,l,f], key features [h,b or 1,m,f]. `key_mask` [b,m] is True
    where a key is seen; the weights of a query that sees none mean nothing.
    """
    query, key = pair if pair is not None else (None, None)
    tensors = [t for term in terms for t in (*term.by_query, *term.whole)]
    hidden = None if key_mask is None else ~key_mask
    return _run(tuple(terms), kernel, hidden, causal, query, key, value, *tensors)


def _run(*args: Any) -> Tensor:
    attended: Tensor = _Blockwise.apply(*args)  # type: ignore[no-untyped-call]
    return attended


def run_eagerly() -> None:
    """Exclude `attend` from torch.compile, which cannot trace gradients inside gradients."""
    global _run
    if not hasattr(
        _run, "_torchdynamo_disable"
    ):  # a decorator would import the compiler at import time
        _run = torch.compiler.disable(_run)


@dataclass(frozen=True)
class _Block:
    heads: slice
    examples: slice
    queries: slice
    keys: int

    def rows(self, t: Tensor) -> Tensor:
        """The block's heads, examples and queries of a tensor."""
        return self.all(t)[:, :, self.queries]

    def seen(self, t: Tensor) -> Tensor:
        """The block's heads and examples, and the keys it sees, of a tensor."""
        return self.all(t)[:, :, : self.keys]

    def all(self, t: Tensor) -> Tensor:
        """The block's heads and examples of a tensor."""
        t = t if t.shape[0] == 1 else t[self.heads]
        return t if t.shape[1] == 1 else t[:, self.examples]


def _blocks(heads: int, batch: int, length: int, kernel: Kernel, causal: bool) -> list[_Block]:
    """The blocks; a causal block has only the keys that one of its queries sees."""
    queries = min(threshold(kernel.queries), length)
    most = threshold(kernel.logits) // (queries * length)
    examples_together = max(1, min(most, batch))
    heads_together = max(1, most // batch)
    return [
        _Block(
            slice(head, min(head + heads_together, heads)),
            slice(example, min(example + examples_together, batch)),
            slice(start, end),
            end if causal else length,
        )
        for head in range(0, heads, heads_together)
        for start in range(0, length, queries)
        for end in [min(start + queries, length)]
        for example in range(0, batch, examples_together)
    ]


@dataclass(frozen=True)
class _Logits:
    """How to compute logits from tensors, and which keys are masked."""

    terms: tuple[tuple[Callable[..., Tensor], int, int], ...]  # rows, tensors by query, whole
    by_query: tuple[bool, ...]  # of all terms' tensors
    causal: bool
    times: Times

    @staticmethod
    def of(terms: Sequence[Rows], causal: bool, times: Times) -> _Logits:
        counted = tuple((term.rows, len(term.by_query), len(term.whole)) for term in terms)
        by_query = (n < cut for _, cut, whole in counted for n in range(cut + whole))
        return _Logits(counted, tuple(by_query), causal, times)

    def cut(self, tensors: Sequence[Tensor], block: _Block) -> list[Tensor]:
        """The block's part of each tensor."""
        return [
            block.rows(t) if by_query else block.all(t)
            for t, by_query in zip(tensors, self.by_query, strict=True)
        ]

    def rows(self, cut: Sequence[Tensor], block: _Block) -> list[Tensor]:
        """Each term's logits [h, b or 1, l, m]."""
        made, start = [], 0
        for rows, by_query, whole in self.terms:
            end = start + by_query + whole
            made.append(rows(block.keys, *cut[start:end]))
            start = end
        return made

    def weights(
        self, pair: Features | None, rows: Sequence[Tensor], hidden: Tensor | None, block: _Block
    ) -> Tensor:
        """Softmax of the sum of the pair's product and the terms' rows, [h,b,l,m]."""
        logits = self._sum(pair, rows, block, own=self.causal or hidden is not None)
        lowest = torch.finfo(logits.dtype).min
        if hidden is not None:
            logits.masked_fill_(hidden[block.examples, None, : block.keys], lowest)
        if self.causal:
            first, end = block.queries.start, block.queries.stop
            later = torch.ones(end - first, end - first, dtype=torch.bool, device=logits.device)
            logits[..., first:end].masked_fill_(later.triu_(1), lowest)
        return torch.softmax(logits, -1)

    def _sum(
        self, pair: Features | None, rows: Sequence[Tensor], block: _Block, *, own: bool
    ) -> Tensor:
        """The sum [h,b,l,m]; `own`: in memory that may be overwritten."""
        total = None
        if pair is not None:
            query, key = block.rows(pair[0]), block.seen(pair[1])
            total = _product(query, key.mT, self.times)
        for each in rows:
            if total is None:
                total = each.detach()
            elif total.shape[1] < each.shape[1] or (pair is None and each is rows[1]):
                total = total + each.detach()
            else:
                total += each.detach()
        assert total is not None
        batch = block.examples.stop - block.examples.start
        if total.shape[1] < batch:
            total = total.expand(-1, batch, -1, -1).contiguous()
        elif own and pair is None and len(rows) == 1:
            total = total.clone()
        return total


class _Blockwise(torch.autograd.Function):
    """See `attend`."""

    @staticmethod
    def forward(
        ctx: Any,
        terms: tuple[Rows, ...],
        kernel: Kernel,
        hidden: Tensor | None,
        causal: bool,
        query: Tensor | None,
        key: Tensor | None,
        value: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        heads, batch, length, channels = value.shape
        times = multiply_of(kernel.products)
        logits = ctx.logits = _Logits.of(terms, causal, times)
        ctx.save_for_backward(hidden, query, key, value, *tensors)
        pair = None if query is None or key is None else (query, key)
        blocks = _blocks(heads, batch, length, kernel, causal)
        ctx.blocks, ctx.only = blocks, None
        if len(blocks) == 1 and any(ctx.needs_input_grad):
            leaves, rows = _with_graph(logits, tensors, ctx.needs_input_grad[7:], blocks[0])
            weights = logits.weights(pair, rows, hidden, blocks[0])
            ctx.only = leaves, rows, weights
            return times(weights, value)
        out = value.new_empty(heads, batch, length, channels)
        for block in blocks:
            rows = logits.rows(logits.cut(tensors, block), block)
            weights = logits.weights(pair, rows, hidden, block)
            block.rows(out).copy_(times(weights, block.seen(value)))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (d_out,) = gradients
        hidden, query, key, value, *tensors = ctx.saved_tensors
        logits: _Logits = ctx.logits
        times = logits.times
        pair = None if query is None else (query, key)
        inputs = (query, key, value, *tensors)
        per_query = (True, False, False, *logits.by_query)
        needed = ctx.needs_input_grad[4:]
        sums = [
            _sum_for(t, by_query, ctx.blocks) if need else None
            for t, by_query, need in zip(inputs, per_query, needed, strict=True)
        ]
        d_query, d_key, d_value, *d_tensors = sums
        for block in ctx.blocks:
            if ctx.only is not None:
                (leaves, rows, weights), ctx.only = ctx.only, None
            else:
                leaves, rows = _with_graph(logits, tensors, ctx.needs_input_grad[7:], block)
                weights = logits.weights(pair, rows, hidden, block)
            d_rows, seen = block.rows(d_out), block.seen(value)
            if d_value is not None:
                block.seen(d_value).add_(times(weights.mT, d_rows))
            d_weights = times(d_rows, seen.mT)
            d_logits = softmax_backward(d_weights, weights)
            if pair is not None:
                shared = query.shape[1] < d_logits.shape[1]
                d_product = d_logits.sum(1, keepdim=True) if shared else d_logits
                if d_query is not None:
                    block.rows(d_query).add_(_product(d_product, block.seen(key), times))
                if d_key is not None:
                    found = _transposed_product(d_product, block.rows(query), key.shape[1], times)
                    block.seen(d_key).add_(found)
            _add_gradients(logits, rows, leaves, d_logits, d_tensors, block)
        made = zip(sums, inputs, strict=True)
        return (None, None, None, None, *(s if s is None else s.to(t.dtype) for s, t in made))


def _sum_for(t: Tensor, by_query: bool, blocks: Sequence[_Block]) -> Tensor:
    """Zeros for the gradient of a tensor; in float32 if several blocks add to a number of it."""
    written_once = by_query and (t.shape[1] > 1 or blocks[0].examples == blocks[-1].examples)
    wide = torch.promote_types(t.dtype, torch.float32)
    dtype = t.dtype if written_once or len(blocks) == 1 else wide
    return torch.zeros_like(t, dtype=dtype, memory_format=torch.contiguous_format)


def _with_graph(
    logits: _Logits, tensors: Sequence[Tensor], needed: Sequence[bool], block: _Block
) -> tuple[list[Tensor], list[Tensor]]:
    """A block's part of the terms' tensors as leaves, and the rows computed from them."""
    with torch.enable_grad():
        leaves = [
            t.detach().requires_grad_(need)
            for t, need in zip(logits.cut(tensors, block), needed, strict=True)
        ]
        return leaves, logits.rows(leaves, block)


def _add_gradients(
    logits: _Logits,
    rows: list[Tensor],
    leaves: list[Tensor],
    d_logits: Tensor,
    d_tensors: list[Tensor | None],
    block: _Block,
) -> None:
    """Add a block's gradients of the terms' tensors to the totals."""
    places = [n for n, leaf in enumerate(leaves) if leaf.requires_grad]
    made = [each for each in rows if each.requires_grad]
    if not places:
        return
    summed = d_logits
    if d_logits.shape[1] > 1 and any(each.shape[1] == 1 for each in made):
        summed = d_logits.sum(1, keepdim=True)
    inputs = [summed if each.shape[1] == 1 else d_logits for each in made]
    found = torch.autograd.grad(made, [leaves[n] for n in places], inputs)
    for n, gradient in zip(places, found, strict=True):
        total = d_tensors[n]
        assert total is not None
        (block.rows(total) if logits.by_query[n] else block.all(total)).add_(gradient)


def _product(left: Tensor, right: Tensor, times: Times) -> Tensor:
    """left [h,b,l,f] right [h,b or 1,f,m]; a shared right operand takes one product per head."""
    h, b, rows, inner = left.shape
    if right.shape[1] == b:
        return times(left, right)
    folded = times(left.reshape(h, 1, b * rows, inner), right)
    return folded.reshape(h, b, rows, -1)


def _transposed_product(left: Tensor, right: Tensor, batch: int, times: Times) -> Tensor:
    """left^T right over the rows, and over the batch too where `batch` is 1: [h,batch,m,f]."""
    if batch < left.shape[1]:
        left, right = (t.reshape(t.shape[0], 1, -1, t.shape[-1]) for t in (left, right))
    return times(left.mT, right)
