"""Attention by PyTorch's FlexAttention, compiled: one kernel per pass makes the logits itself.

What is not a product of features is added to it inside the kernel: S[q,k] = product + table[q,k] +
a[q, k // n] b[q, k % n]. The backward pass adds to the gradients of tables and factors atomically.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.compiled import can_compile, has_values, run_compiled
from synthbench.backends.torch.mixers.factorized_dense import factor
from synthbench.backends.torch.mixers.features import (
    features_of,
    has_features,
    join,
    number_of_features,
    pad_features,
)
from synthbench.backends.torch.mixers.numerics import ForwardInputs
from synthbench.backends.torch.private_api import is_view
from synthbench.mixers.attention import Attention
from synthbench.mixers.component import Component
from synthbench.mixers.factorized_dense import FactorizedDense
from synthbench.mixers.plugin_component import PluginComponent

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

FLEX = "FlexAttention"
TABLES = frozenset({"random", "fixed_random"})
# Triton multiplies at least 16 features. PyTorch has sizes of blocks for up to 256: with more, the
# kernel may not fit into the shared memory of a GPU.
FEWEST_FEATURES, MOST_FEATURES = 16, 256
MOST_ADDED = 2**31 - 1  # the kernel finds a number of a table by a 32-bit index
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BLOCK = 128  # queries and keys that a causal mask shows or hides together


class Added(NamedTuple):
    """What the kernel adds to the product of features, and which keys it hides."""

    tables: tuple[Tensor, ...]  # [H,L,L], the same for every example
    factors: tuple[tuple[Tensor, Tensor], ...]  # [B,H,L,m] and [B,H,L,n]
    padding_mask: Tensor | None


def offers(mixer: Attention, p: dict[str, Tensor], x: Tensor) -> bool:
    """Whether this kernel can compute a mixer for inputs like x.

    On a CPU PyTorch has no backward pass for it. FR, R and Fix are not worth it if they are alone:
    every example would compute their logits again.
    """
    return can_compile(x) and x.dtype in DTYPES and adds(mixer, p) and fits(mixer, p, x)


def adds(mixer: Attention, p: dict[str, Tensor]) -> bool:
    """Whether all logits are features, tables and factors, and some are not features."""
    others = [c for c in mixer.components if not has_features(c)]
    if any(isinstance(c, PluginComponent) for c in others):
        return False
    known = all(c.name in TABLES or c.name == "factorized_dense" for c in others)
    return known and bool(others or "position_bias" in p)


def fits(mixer: Attention, p: dict[str, Tensor], x: Tensor) -> bool:
    """Whether features, values and what is added to the logits have sizes that the kernel has."""
    counts = [number_of_features(c, p) for c in mixer.components if has_features(c)]
    known = [count for count in counts if count is not None]
    most = max(sum(known), p["value"].shape[-1])
    return len(known) == len(counts) and most <= MOST_FEATURES and largest(p, x) <= MOST_ADDED


def largest(p: dict[str, Tensor], x: Tensor) -> int:
    """The numbers in the largest tensor that is added to the logits."""
    (B, L), H = x.shape[:2], p["value"].shape[1]
    tables = (*(f"{name}.logits" for name in TABLES), "position_bias")
    factors = [p[n].shape[-1] for n in ("factorized_dense.a", "factorized_dense.b") if n in p]
    return max(H * L * L * any(n in p for n in tables), B * H * L * max(factors, default=0))


def attend(
    parts: Sequence[tuple[Component, Tensor | None]], inputs: ForwardInputs, value: Tensor
) -> Tensor:
    """softmax(S) value: [B,L,H,k] -> [B,L,H,k]; a query without a key gets zeros.

    `parts`: components with their weights [H or 1] in the mixture.
    """
    B, L, H, k = value.shape
    pairs = [features_of(c, inputs, weight) for c, weight in parts if has_features(c)]
    query, key = join(pairs) if pairs else [value.new_zeros(1, H, L, FEWEST_FEATURES)] * 2
    features, channels = (max(FEWEST_FEATURES, n) for n in (query.shape[-1], k))
    query, key = (in_full(pad_features(x, features), B) for x in (query, key))
    padded = pad_features(value.swapaxes(1, 2), channels)
    added = added_to(parts, inputs)
    blocks = None
    if has_values(value):
        blocks = (causal_blocks if inputs.causal else one_block)(L, value.device)
    made = run_compiled(
        flex, query, key, padded, *added, blocks,
        shape=(B, H, L, channels), kept=(B, H, L), added=added[:2],
    )  # fmt: skip
    return made[..., :k].swapaxes(1, 2)


def in_full(x: Tensor, batch: int) -> Tensor:
    """X [B or 1,..] with every example in memory: the kernel's gradients have the strides of X."""
    return x if x.shape[0] == batch else x.expand(batch, -1, -1, -1).contiguous()


def added_to(parts: Sequence[tuple[Component, Tensor | None]], inputs: ForwardInputs) -> Added:
    """The components without features, multiplied by their weights in the mixture.

    A weighted table is a tensor of its own: the gradient of the weight would else be one number per
    head, to which every logit adds.
    """
    tables, factors = [], []
    for component, weight in parts:
        if isinstance(component, FactorizedDense):
            factors.append(factors_of(component, inputs, weight))
        elif component.name in TABLES:
            table, L = inputs.p[f"{component.name}.logits"], inputs.x.shape[1]
            table = table if table.shape[-1] == L else table[:, :L, :L]
            tables.append(own(table) if weight is None else table * weight[:, None, None])
    if "position_bias" in inputs.p:  # [1,H,L,L], of the model around the mixer
        tables.append(own(inputs.p["position_bias"][0]))
    return Added(tuple(tables), tuple(factors), inputs.padding_mask)


def own(x: Tensor) -> Tensor:
    """X, copied if needed: PyTorch gives no gradient to what the kernel adds if it is a view."""
    return x.clone() if x.requires_grad and is_view(x) else x


def factors_of(
    component: FactorizedDense, inputs: ForwardInputs, weight: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The factors [B,H,L,m] and [B,H,L,n] of FD."""
    hidden_a, hidden_b = component.hidden_names
    a = factor(inputs, hidden_a, "factorized_dense.a")
    b = factor(inputs, hidden_b, "factorized_dense.b")
    return own(a) if weight is None else a * weight[:, None, None], own(b)


def flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    tables: tuple[Tensor, ...],
    factors: tuple[tuple[Tensor, Tensor], ...],
    padding_mask: Tensor | None,
    blocks: BlockMask | None,
) -> Tensor:
    """Query and key [B,H,L,f], value [B,H,L,c] -> [B,H,L,c]."""
    from torch.nn.attention.flex_attention import flex_attention

    def logits(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        for table in tables:
            score = score + table[h, q, k]
        for left, right in factors:
            n = right.shape[-1]
            score = score + left[b, h, q, k // n] * right[b, h, q, k % n]
        if padding_mask is not None:
            score = torch.where(padding_mask[b, k], score, -float("inf"))
        return score

    # "TRITON": the same kernel at every length; for short inputs there is another one.
    options: Any = {"BACKEND": "TRITON"}
    made: Any = flex_attention(
        query, key, value, score_mod=logits, block_mask=blocks, scale=1.0, kernel_options=options
    )
    attended: Tensor = made
    return attended


@lru_cache(maxsize=8)
def one_block(seq_len: int, device: torch.device) -> BlockMask:
    """One block, in which every query sees every key; without it, each call would make one."""
    from torch.nn.attention.flex_attention import BlockMask

    with torch.inference_mode(False):  # it is used for gradients later
        return BlockMask.from_kv_blocks(
            torch.ones(1, 1, 1, dtype=torch.int32, device=device),
            torch.zeros(1, 1, 1, 1, dtype=torch.int32, device=device),
            BLOCK_SIZE=-(-seq_len // BLOCK) * BLOCK,
            seq_lengths=(seq_len, seq_len),
        )


@lru_cache(maxsize=8)
def causal_blocks(seq_len: int, device: torch.device) -> BlockMask:
    """The blocks of keys that each block of queries sees: those before it in full, its own partly.

    As PyTorch's own function finds them, which makes a mask [L,L] first: what an incomplete block
    of queries sees counts as partly seen.
    """
    from torch.nn.attention.flex_attention import BlockMask

    n = -(-seq_len // BLOCK)
    with torch.inference_mode(False):  # it is used for gradients later
        own = torch.arange(n, dtype=torch.int32, device=device)
        all_blocks = own.expand(1, 1, n, n).contiguous()
        complete = own < seq_len // BLOCK
        only_own = torch.zeros_like(all_blocks)
        only_own[..., 0] = own
        return BlockMask.from_kv_blocks(
            torch.where(complete, 1, own + 1)[None, None],
            torch.where(complete[:, None], only_own, all_blocks),
            torch.where(complete, own, 0)[None, None],
            all_blocks,
            BLOCK_SIZE=BLOCK,
            mask_mod=is_before,
            seq_lengths=(seq_len, seq_len),
        )


def is_before(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Whether query q may see key k."""
    return q >= k
