"""The logits of one block, and the weights made of them, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.blocks import Block, memory_to_reuse
from synthbench.backends.torch.mixers.numerics import Times

Features = tuple[Tensor, Tensor]  # of queries and of keys: the logits are their product


@dataclass(frozen=True)
class Rows:
    """One term of the logits: `rows(keys, *by_query, *whole)` -> [h, b or 1, l, keys].

    Tensors have four axes; those `by_query` have the queries third, and come cut to a block.
    """

    rows: Callable[..., Tensor]
    by_query: tuple[Tensor, ...]
    whole: tuple[Tensor, ...] = ()


def as_they_are(keys: int, logits: Tensor) -> Tensor:
    """`rows` of a term whose one tensor is the logits: its gradient is theirs."""
    return logits[..., :keys]


@dataclass(frozen=True)
class Logits:
    """How to compute logits from tensors, and which keys are masked."""

    terms: tuple[tuple[Callable[..., Tensor], int, int], ...]  # rows, tensors by query, whole
    by_query: tuple[bool, ...]  # of all terms' tensors
    as_they_are: tuple[bool, ...]  # of all terms' tensors: logits, not what they are made from
    causal: bool
    times: Times

    @staticmethod
    def of(terms: Sequence[Rows], causal: bool, times: Times) -> Logits:
        counted = tuple((term.rows, len(term.by_query), len(term.whole)) for term in terms)
        by_query = (n < cut for _, cut, whole in counted for n in range(cut + whole))
        direct = (rows is as_they_are for rows, cut, whole in counted for _ in range(cut + whole))
        return Logits(counted, tuple(by_query), tuple(direct), causal, times)

    def cut(self, tensors: Sequence[Tensor], block: Block) -> list[Tensor]:
        """The block's part of each tensor."""
        return [
            block.rows(t) if by_query else block.all(t)
            for t, by_query in zip(tensors, self.by_query, strict=True)
        ]

    def rows(self, cut: Sequence[Tensor], block: Block) -> list[Tensor]:
        """Each term's logits [h, b or 1, l, m]."""
        made, start = [], 0
        for rows, by_query, whole in self.terms:
            end = start + by_query + whole
            made.append(rows(block.keys, *cut[start:end]))
            start = end
        return made

    def weights(
        self, pair: Features | None, rows: Sequence[Tensor], hidden: Tensor | None, block: Block
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
        return torch.softmax(logits, -1, out=None if pair is None else memory_to_reuse(logits))

    def _sum(
        self, pair: Features | None, rows: Sequence[Tensor], block: Block, *, own: bool
    ) -> Tensor:
        """The sum [h,b,l,m]; `own`: in memory that may be overwritten."""
        total = None
        if pair is not None:
            query, key = block.rows(pair[0]), block.seen(pair[1])
            total = product(query, key.mT, self.times)
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


def product(left: Tensor, right: Tensor, times: Times) -> Tensor:
    """left [h,b,l,f] right [h,b or 1,f,m]; a shared right operand takes one product per head."""
    h, b, rows, inner = left.shape
    if right.shape[1] == b:
        return times(left, right)
    folded = times(left.reshape(h, 1, b * rows, inner), right)
    return folded.reshape(h, b, rows, -1)
