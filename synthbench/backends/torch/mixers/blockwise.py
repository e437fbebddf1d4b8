"""Attention by blocks of queries; the backward pass recomputes the weights of each block.

What is in memory beside inputs, outputs and gradients is a few blocks [heads, B, queries, L], so
that it grows with L and not with its square. Tensors have heads first: [h or 1, b or 1, l, ..].
Where one block holds all, its weights are kept for the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from synthbench.backends.torch.cpu_matmul import multiply_of
from synthbench.backends.torch.mixers.block_logits import Features, Logits, Rows, product
from synthbench.backends.torch.mixers.blocks import Block, Sum, divide, memory_to_reuse
from synthbench.backends.torch.mixers.numerics import Times, require_first_gradients
from synthbench.backends.torch.private_api import softmax_backward
from synthbench.kernel import Kernel


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
        logits = ctx.logits = Logits.of(terms, causal, times)
        ctx.save_for_backward(hidden, query, key, value, *tensors)
        pair = None if query is None or key is None else (query, key)
        blocks = divide(heads, batch, length, kernel, causal)
        ctx.blocks, ctx.only = blocks, None
        if len(blocks) == 1 and any(ctx.needs_input_grad):
            leaves, rows = _with_graph(logits, tensors, ctx.needs_input_grad[7:], blocks[0])
            weights = logits.weights(pair, rows, hidden, blocks[0])
            ctx.only = leaves, rows, weights
            return times(weights, value)
        out = value.new_empty(heads, batch, length, channels)

        def write(block: Block) -> None:
            rows = logits.rows(logits.cut(tensors, block), block)
            weights = logits.weights(pair, rows, hidden, block)
            block.rows(out).copy_(times(weights, block.seen(value)))

        # A function has no variable left that would keep a block's memory from the next block.
        for block in blocks:
            write(block)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        require_first_gradients()
        (d_out,) = gradients
        hidden, query, key, value, *tensors = ctx.saved_tensors
        logits: Logits = ctx.logits
        times = logits.times
        pair = None if query is None else (query, key)
        blocks: list[Block] = ctx.blocks
        needed = ctx.needs_input_grad[4:]
        sum_query = Sum.of(query, blocks, by_query=True) if needed[0] else None
        # Keys last: so the products with the weights give them, as a library stores them.
        sum_key = Sum.of(key.mT, blocks, by_key=True) if needed[1] else None
        sum_value = Sum.of(value.mT, blocks, by_key=True) if needed[2] else None
        sums = [
            Sum.of(t, blocks, by_query=by_query, by_key=direct) if need else None
            for t, by_query, direct, need in zip(
                tensors, logits.by_query, logits.as_they_are, needed[3:], strict=True
            )
        ]

        def add(block: Block) -> None:
            if ctx.only is not None:
                (leaves, rows, weights), ctx.only = ctx.only, None
            else:
                leaves, rows = _with_graph(logits, tensors, needed[3:], block)
                weights = logits.weights(pair, rows, hidden, block)
            d_rows, seen = block.rows(d_out), block.seen(value)
            if sum_value is not None:
                sum_value.add(block.columns, times(d_rows.mT, weights))
            d_weights = times(d_rows, seen.mT)
            own = _memory_of_gradient(logits, sums, d_weights, block) if pair is None else None
            into = memory_to_reuse(d_weights) if own is None else own
            d_logits = softmax_backward(d_weights, weights, into)
            if d_logits is own:
                return
            if pair is not None:
                shared = query.shape[1] < d_logits.shape[1]
                d_product = d_logits.sum(1, keepdim=True) if shared else d_logits
                if sum_query is not None:
                    sum_query.add(block.rows, product(d_product, block.seen(key), times))
                if sum_key is not None:
                    found = _transposed_product(block.rows(query), d_product, key.shape[1], times)
                    sum_key.add(block.columns, found)
            _add_gradients(logits, rows, leaves, d_logits, sums, block)

        for block in blocks:  # as in the forward pass
            add(block)
        d_query, d_key, d_value, *d_tensors = (
            None if each is None else each.total.to(value.dtype)
            for each in (sum_query, sum_key, sum_value, *sums)
        )
        d_key, d_value = (None if each is None else each.mT for each in (d_key, d_value))
        return (None, None, None, None, d_query, d_key, d_value, *d_tensors)


def _with_graph(
    logits: Logits, tensors: Sequence[Tensor], needed: Sequence[bool], block: Block
) -> tuple[list[Tensor], list[Tensor]]:
    """A block's part of the terms' tensors as leaves, and the rows computed from them."""
    with torch.enable_grad():
        leaves = [
            t.detach().requires_grad_(need and not direct)
            for t, need, direct in zip(
                logits.cut(tensors, block), needed, logits.as_they_are, strict=True
            )
        ]
        return leaves, logits.rows(leaves, block)


def _memory_of_gradient(
    logits: Logits, sums: list[Sum | None], d_weights: Tensor, block: Block
) -> Tensor | None:
    """Where a block's gradient of the logits belongs, to be written there at once.

    None where other blocks add to it, or where other gradients are made from it.
    """
    if logits.as_they_are != (True,) or (total := sums[0]) is None or not total.once:
        return None
    part = block.logits(total.total)
    alike = part.shape == d_weights.shape and part.dtype == d_weights.dtype
    return part if alike and part.is_contiguous() else None


def _add_gradients(
    logits: Logits,
    rows: list[Tensor],
    leaves: list[Tensor],
    d_logits: Tensor,
    sums: list[Sum | None],
    block: Block,
) -> None:
    """Add a block's gradients of the terms' tensors to their sums."""
    summed = d_logits
    if d_logits.shape[1] > 1 and any(each.shape[1] == 1 for each in rows):
        summed = d_logits.sum(1, keepdim=True)
    for total, direct, leaf in zip(sums, logits.as_they_are, leaves, strict=True):
        if direct and total is not None:
            total.add(block.logits, summed if leaf.shape[1] == 1 else d_logits)
    places = [n for n, leaf in enumerate(leaves) if leaf.requires_grad]
    made = [each for each in rows if each.requires_grad]
    if not places:
        return
    inputs = [summed if each.shape[1] == 1 else d_logits for each in made]
    found = torch.autograd.grad(made, [leaves[n] for n in places], inputs)
    for n, gradient in zip(places, found, strict=True):
        total = sums[n]
        assert total is not None
        total.add(block.rows if logits.by_query[n] else block.all, gradient)


def _transposed_product(left: Tensor, right: Tensor, batch: int, times: Times) -> Tensor:
    """left^T right over the rows, and over the batch too where `batch` is 1: [h,batch,f,m]."""
    if batch < right.shape[1]:
        left, right = (t.reshape(t.shape[0], 1, -1, t.shape[-1]) for t in (left, right))
    return times(left.mT, right)
