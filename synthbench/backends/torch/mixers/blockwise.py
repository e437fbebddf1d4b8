"""Attention a block of queries at a time, its weights made again in the backward pass.

What is in memory beside inputs, outputs and gradients is a few blocks [heads, B, queries, L], so
that it grows with L and not with its square. Tensors have heads first: [h or 1, b or 1, l, ..].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# Queries a block. Heads go together until a block has so many logits: few enough that they stay in
# a CPU's cache and take the memory of the block before, on a GPU enough to fill it.
QUERIES = 128
LOGITS = {"cpu": 2**20, "cuda": 2**26}


@dataclass(frozen=True)
class Term:
    """One term of the logits: `rows(keys, *by_query, *whole)` -> [h, b or 1, l, keys].

    Tensors have four axes; those `by_query` have the queries third, and come cut to a block.
    """

    rows: Callable[..., Tensor]
    by_query: tuple[Tensor, ...]
    whole: tuple[Tensor, ...] = ()


Pair = tuple[Tensor, Tensor]


def attend(
    pair: Pair | None,
    terms: Sequence[Term],
    value: Tensor,
    key_mask: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """softmax(query features key features^T + terms) value [h,b,m,c] -> [h,b,l,c].

    `pair`: query features [h,b or 1,l,f], key features [h,b or 1,m,f]. `key_mask` [b,m] is True
    where a key is seen; the weights of a query that sees none mean nothing.
    """
    query, key = pair if pair is not None else (None, None)
    tensors = [t for term in terms for t in (*term.by_query, *term.whole)]
    hidden = None if key_mask is None else ~key_mask
    attended: Tensor = _Blockwise.apply(  # type: ignore[no-untyped-call]
        tuple(terms), hidden, causal, query, key, value, *tensors
    )
    return attended


@dataclass(frozen=True)
class _Block:
    heads: slice
    queries: slice
    keys: int

    def rows(self, t: Tensor) -> Tensor:
        """The block's heads and queries of a tensor."""
        return self.all(t)[:, :, self.queries]

    def seen(self, t: Tensor) -> Tensor:
        """The block's heads and the keys it sees of a tensor."""
        return self.all(t)[:, :, : self.keys]

    def all(self, t: Tensor) -> Tensor:
        """The block's heads of a tensor."""
        return t if t.shape[0] == 1 else t[self.heads]


def _blocks(heads: int, batch: int, length: int, device: str, causal: bool) -> Iterator[_Block]:
    """Blocks of queries; where causal, only the keys that one of them sees."""
    queries = min(QUERIES, length)
    together = max(1, LOGITS.get(device, LOGITS["cuda"]) // (batch * queries * length))
    for head in range(0, heads, together):
        for start in range(0, length, queries):
            end = min(start + queries, length)
            keys = end if causal else length
            yield _Block(slice(head, min(head + together, heads)), slice(start, end), keys)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """left [h,b,l,f] right [h,b or 1,f,m]: where right is one for the batch, one product a head."""
    h, b, rows, inner = left.shape
    if right.shape[1] == b:
        return left @ right
    folded = left.reshape(h, 1, b * rows, inner) @ right
    return folded.reshape(h, b, rows, -1)


def _transposed_product(left: Tensor, right: Tensor, batch: int) -> Tensor:
    """left^T right over the rows, and over the batch too where `batch` is 1: [h,batch,m,f]."""
    if batch == 1 and left.shape[1] > 1:
        left, right = (t.reshape(t.shape[0], 1, -1, t.shape[-1]) for t in (left, right))
    return left.mT @ right


def _weights(
    logits: Tensor, block: _Block, hidden: Tensor | None, causal: bool, dtype: torch.dtype
) -> Tensor:
    """Softmax of a block's logits, which are written over."""
    lowest = torch.finfo(logits.dtype).min
    if hidden is not None:
        logits.masked_fill_(hidden[:, None, : block.keys], lowest)
    if causal:
        first, end = block.queries.start, block.queries.stop
        later = torch.ones(end - first, end - first, dtype=torch.bool, device=logits.device)
        logits[..., first:end].masked_fill_(later.triu_(1), lowest)
    return torch.softmax(logits, -1)


def _logits(block: _Block, batch: int, pair: Pair | None, extra: Sequence[Tensor]) -> Tensor:
    """Logits [h,b,l,m] of a block in memory of their own."""
    total = None
    if pair is not None:
        query, key = block.rows(pair[0]), block.seen(pair[1])
        total = _product(query, key.mT)
        extra = list(extra)
    for each in extra:
        if total is None:
            total = each.expand(-1, batch, -1, -1).clone()
        elif total.shape[1] < each.shape[1]:
            total = total + each
        else:
            total += each
    assert total is not None
    if total.shape[1] < batch:
        total = total.expand(-1, batch, -1, -1).contiguous()
    return total


class _Blockwise(torch.autograd.Function):
    """See `attend`."""

    @staticmethod
    def forward(
        ctx: Any,
        terms: tuple[Term, ...],
        hidden: Tensor | None,
        causal: bool,
        query: Tensor | None,
        key: Tensor | None,
        value: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        ctx.terms = [(term.rows, len(term.by_query), len(term.whole)) for term in terms]
        ctx.causal = causal
        ctx.save_for_backward(hidden, query, key, value, *tensors)
        heads, batch, length, channels = value.shape
        out = value.new_empty(heads, batch, length, channels)
        pair = None if query is None or key is None else (query, key)
        for block in _blocks(heads, batch, length, value.device.type, causal):
            extra = _extra(ctx.terms, tensors, block)
            logits = _logits(block, batch, pair, extra)
            weights = _weights(logits, block, hidden, causal, value.dtype)
            out[block.heads, :, block.queries] = weights @ block.seen(value)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (d_out,) = gradients
        hidden, query, key, value, *tensors = ctx.saved_tensors
        heads, batch, length, _ = value.shape
        needed = ctx.needs_input_grad[3:]
        sums = [
            torch.zeros_like(t, memory_format=torch.contiguous_format) if need else None
            for t, need in zip((query, key, value, *tensors), needed, strict=True)
        ]
        d_query, d_key, d_value, *d_tensors = sums
        pair = None if query is None else (query, key)
        for block in _blocks(heads, batch, length, value.device.type, ctx.causal):
            with torch.enable_grad():
                cut = _cut(ctx.terms, tensors, block)
                leaves = [
                    t.detach().requires_grad_(need)
                    for t, need in zip(cut, needed[3:], strict=True)
                ]
                extra = _rows(ctx.terms, leaves, block)
            logits = _logits(block, batch, pair, [e.detach() for e in extra])
            weights = _weights(logits, block, hidden, ctx.causal, value.dtype)
            given, seen = block.rows(d_out), block.seen(value)
            if d_value is not None:
                block.seen(d_value).add_(weights.mT @ given)
            d_weights = given @ seen.mT
            d_logits = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
            if d_query is not None and query is not None:
                rows = d_logits
                if query.shape[1] < batch:
                    rows = rows.sum(1, keepdim=True)
                block.rows(d_query).copy_(_product(rows, block.seen(key)))
            if d_key is not None and key is not None:
                rows, features = d_logits, block.rows(query)
                if query.shape[1] < batch:
                    rows = rows.sum(1, keepdim=True)
                block.seen(d_key).add_(_transposed_product(rows, features, key.shape[1]))
            _add_gradients(ctx.terms, extra, leaves, d_logits, d_tensors, block)
        return (None, None, None, *sums)


def _cut(terms: Any, tensors: Sequence[Tensor], block: _Block) -> list[Tensor]:
    """The block's part of the tensors of all terms, in order."""
    return [
        block.rows(t) if by_query else block.all(t)
        for t, by_query in zip(tensors, _by_query(terms), strict=True)
    ]


def _by_query(terms: Any) -> list[bool]:
    """Whether each tensor of all terms is cut by queries."""
    return [n < by_query for _, by_query, whole in terms for n in range(by_query + whole)]


def _rows(terms: Any, cut: Sequence[Tensor], block: _Block) -> list[Tensor]:
    """Each term's rows of logits, from its part of the tensors."""
    made, start = [], 0
    for rows, by_query, whole in terms:
        end = start + by_query + whole
        made.append(rows(block.keys, *cut[start:end]))
        start = end
    return made


def _extra(terms: Any, tensors: Sequence[Tensor], block: _Block) -> list[Tensor]:
    return _rows(terms, _cut(terms, tensors, block), block)


def _add_gradients(
    terms: Any,
    extra: list[Tensor],
    leaves: list[Tensor],
    d_logits: Tensor,
    d_tensors: list[Tensor | None],
    block: _Block,
) -> None:
    """Add a block's gradients of the terms' tensors to what the blocks before made."""
    places = [n for n, leaf in enumerate(leaves) if leaf.requires_grad]
    made = [e for e in extra if e.requires_grad]
    if not places:
        return
    shared = d_logits.sum(1, keepdim=True) if any(e.shape[1] == 1 for e in made) else d_logits
    given = [shared if e.shape[1] == 1 else d_logits for e in made]
    found = torch.autograd.grad(made, [leaves[n] for n in places], given)
    by_query = _by_query(terms)
    for n, gradient in zip(places, found, strict=True):
        total = d_tensors[n]
        assert total is not None
        (block.rows(total) if by_query[n] else block.all(total)).add_(gradient)
