"""The blocks of heads, examples and queries of blockwise attention, and sums over them, in PyTorch.

Tensors have heads first: [h or 1, b or 1, l, ..].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from synthbench.backends.kernel_record import threshold
from synthbench.backends.torch.placement import is_accelerator
from synthbench.kernel import Kernel

# Sizes of a block to choose from, the first without a measurement: queries at most, then several
# examples and heads up to this many logits. Few stay in a CPU's cache and reuse the memory of the
# block before; a GPU needs many to be filled, and launches the same kernels for each block.
BLOCK_SIZES = {
    "cpu": ({"queries": 512, "logits": 2**18}, {"queries": 1024, "logits": 2**20}),
    "cuda": (
        {"queries": 128, "logits": 2**26},
        {"queries": 512, "logits": 2**24},
        {"queries": 2048, "logits": 2**28},
    ),
}


def sizes(device: torch.device) -> tuple[dict[str, int], ...]:
    """The sizes of blocks to choose from on a device: those of CUDA on every accelerator."""
    return BLOCK_SIZES["cuda" if is_accelerator(device) else "cpu"]


@dataclass(frozen=True)
class Block:
    """The heads, examples and queries of one block, and how many keys they see."""

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

    def columns(self, t: Tensor) -> Tensor:
        """The same of a tensor that has the keys last."""
        return self.all(t)[..., : self.keys]

    def logits(self, t: Tensor) -> Tensor:
        """The block's heads, examples, queries and keys of a tensor."""
        return self.columns(t)[:, :, self.queries]

    def all(self, t: Tensor) -> Tensor:
        """The block's heads and examples of a tensor."""
        t = t if t.shape[0] == 1 else t[self.heads]
        return t if t.shape[1] == 1 else t[:, self.examples]


def divide(heads: int, batch: int, length: int, kernel: Kernel, causal: bool) -> list[Block]:
    """The blocks; a causal block has only the keys that one of its queries sees."""
    queries = min(threshold(kernel.queries), length)
    most = threshold(kernel.logits) // (queries * length)
    examples_together = max(1, min(most, batch))
    heads_together = max(1, most // batch)
    return [
        Block(
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
class Sum:
    """The gradient of a tensor, added up block by block."""

    total: Tensor
    once: bool  # whether at most one block gives each number

    @staticmethod
    def of(
        t: Tensor, blocks: Sequence[Block], *, by_query: bool = False, by_key: bool = False
    ) -> Sum:
        """No gradient yet; in float32 if several blocks add to a number of it.

        `by_query`: the queries come third, and a block gives numbers of its own only. `by_key`: the
        keys come last, and a block gives those that it sees. Memory that they may leave is cleared.
        """
        first, last = blocks[0], blocks[-1]
        once = len(blocks) == 1 or (
            by_query
            and (t.shape[0] > 1 or first.heads == last.heads)
            and (t.shape[1] > 1 or first.examples == last.examples)
        )
        whole = (not by_query or t.shape[2] == last.queries.stop) and (
            not by_key or t.shape[3] == first.keys
        )
        make = t.new_empty if once and whole else t.new_zeros
        return Sum(make(t.shape, dtype=t.dtype if once else _wide(t.dtype)), once)

    def add(self, part: Callable[[Tensor], Tensor], gradient: Tensor) -> None:
        """Add a block's gradient to its part of the total."""
        if self.once:
            part(self.total).copy_(gradient)
        else:
            part(self.total).add_(gradient)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The floating-point type to add in."""
    return torch.promote_types(dtype, torch.float32)


def memory_to_reuse(t: Tensor) -> Tensor | None:
    """The memory of a tensor that is not needed any more, for a result of its shape; None: new.

    Each further block in use is one less in a CPU's cache.
    """
    return None if is_accelerator(t.device) else t
