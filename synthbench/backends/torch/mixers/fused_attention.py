"""The fused forms of synthetic attention in PyTorch, without all weights in memory.

Logits that are the same for every example weigh the values of the whole batch in one product a
head; the others are made a block of queries at a time, or, where they are products of features and
that is faster, in one call of PyTorch's fused attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from synthbench.backends.kernel_choice import may_be_plain, that_differ
from synthbench.backends.kernel_record import REFERENCE_KERNEL, threshold
from synthbench.backends.torch.cpu_matmul import ONEDNN, libraries, product_of
from synthbench.backends.torch.mixers import blockwise, flex
from synthbench.backends.torch.mixers.block_logits import Features, Rows
from synthbench.backends.torch.mixers.blocks import sizes
from synthbench.backends.torch.mixers.compiled import has_values
from synthbench.backends.torch.mixers.features import (
    features_of,
    has_features,
    join,
    number_of_features,
)
from synthbench.backends.torch.mixers.flash import FLASH, UNPADDED, flash, sizes_may_differ
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    affine,
    record_kernel,
    softmax,
    zero_padded,
)
from synthbench.backends.torch.mixers.terms import logits_term, term_of
from synthbench.backends.torch.mixers.weight_cache import cached_weights, caches_weights
from synthbench.backends.torch.placement import is_accelerator
from synthbench.kernel import Kernel
from synthbench.mixers.attention import Attention
from synthbench.mixers.component import Component

# Up to these lengths, measured, a CPU trains these components faster in the reference form if they
# are alone.
PLAIN_TRAINED_ALONE_UP_TO = {"glu": 512}
# Without oneDNN's products, the same holds for every mixer up to this many logits [B,H,L,L]:
# recomputed weights cost one more product in the backward pass and, by blocks, a softmax.
PLAIN_UP_TO = {"forward": 2**19, "train": 2**22, "train by blocks": 2**24}
SHARED = frozenset({"random", "fixed_random", "factorized_random"})
# Their reference form calls PyTorch's convolution, which copies the kernel: in committed races on
# three CPUs it saved a few percent at most, and took up to three times as long.
CONVOLUTIONS = frozenset({"conv", "conv_relu_conv", "bottleneck_conv"})
# PyTorch's fused attention fills values up to the size of the features. On a CPU blocks are faster
# from this many features per value on: more than the two pairs of D+V have.
WIDE = 2
BLOCKS = "blocks of queries"
SHARED_BLOCKS = "one product per head, by blocks of queries"


def kernels(
    mixer: Attention, p: dict[str, Tensor], x: Tensor, padding_mask: Tensor | None = None
) -> list[Kernel]:
    """The kernels for inputs like x, the one to take without a measurement first."""
    (B, L), H = x.shape[:2], p["value"].shape[1]
    names = {component.name for component in mixer.components}
    joined = "position_bias" not in p and all(map(has_features, mixer.components))
    wide = joined and has_wide_features(mixer, p, x)
    found = []
    path, weights = (SHARED_BLOCKS, H * L * L) if names <= SHARED else (BLOCKS, B * H * L * L)
    for products in libraries(x):
        different = that_differ(sizes(x.device), L, weights)
        blocks = [Kernel(path, products, **size) for size in different]
        whole = [Kernel(FLASH, products)] if joined and not names <= SHARED else []
        # Blocks use oneDNN throughout, PyTorch's fused attention only around it.
        found += blocks + whole if products == ONEDNN or wide else whole + blocks
        if whole and sizes_may_differ(mixer, p, x, padding_mask):
            found.append(Kernel(UNPADDED, products))
        if not names <= SHARED and flex.offers(mixer, p, x):
            found.append(Kernel(flex.FLEX, products))
    plain = Kernel(REFERENCE_KERNEL)
    if plain_is_faster(mixer, p, x, found[0].products):
        return [plain, *found]
    return found + [plain] * may_be_plain(names, B, H, L)


def has_wide_features(mixer: Attention, p: dict[str, Tensor], x: Tensor) -> bool:
    """Whether PyTorch's fused attention would fill up values so much that blocks are faster."""
    counts = [number_of_features(component, p) for component in mixer.components]
    values = p["value"].shape[-1]
    return not is_accelerator(x.device) and sum(count or 0 for count in counts) > WIDE * values


def fused(
    mixer: Attention,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
    kernel: Kernel,
) -> Tensor:
    """The same numbers as `reference`, never with all weights [B,H,L,L] in memory."""
    times = product_of(kernel.products)
    inputs = ForwardInputs(p, x, padding_mask, causal, times)
    value = zero_padded(inputs.project("value"), padding_mask)  # 0 weight x NaN would be NaN
    heads = zero_fully_masked_queries(attend(mixer, inputs, value, kernel), inputs)
    return affine(heads.flatten(2), p["output"].flatten(0, 1), p.get("output_bias"), times)


def plain_is_faster(mixer: Attention, p: dict[str, Tensor], x: Tensor, products: str) -> bool:
    """Whether the reference form is the faster one, as on a CPU for small weights [B,H,L,L].

    `products`: the library that the other kernels would use.
    """
    names = {component.name for component in mixer.components}
    if is_accelerator(x.device) or names <= SHARED or names & CONVOLUTIONS:
        return False
    trained = torch.is_grad_enabled() and (x.requires_grad or p["value"].requires_grad)
    (B, L), H = x.shape[:2], p["value"].shape[1]
    alone = mixer.components[0].name if len(mixer.components) == 1 else ""
    if trained and threshold(PLAIN_TRAINED_ALONE_UP_TO.get(alone, 0)) >= L:
        return True
    if products == ONEDNN:
        return False
    case = "forward"
    if trained:
        by_blocks = "position_bias" in p or not all(map(has_features, mixer.components))
        case = "train by blocks" if by_blocks else "train"
    return math.prod((B, H, L, L)) <= threshold(PLAIN_UP_TO[case])


def attend(mixer: Attention, inputs: ForwardInputs, value: Tensor, kernel: Kernel) -> Tensor:
    """softmax(S) value: [B,L,H,k] -> [B,L,H,k]; a query without a key gets any finite output."""
    parts = list(zip(mixer.components, weights_of(mixer, inputs), strict=True))
    causal, mask = inputs.causal, inputs.padding_mask
    # Compiled code cannot look whether what is hidden has all of the weight: see `shared`.
    is_unsure = mask is not None and torch.compiler.is_compiling()
    if kernel.path == SHARED_BLOCKS and not is_unsure:
        if caches_weights(mixer, inputs):
            record_kernel("cached weights")
            weights = cached_weights(mixer, inputs)
            heads = shared(value, inputs, lambda v: inputs.times(weights, v))
        else:
            record_kernel(kernel.path)
            pair, terms = split(parts, inputs)
            heads = shared(value, inputs, lambda v: by_blocks(pair, terms, v, None, causal, kernel))
        if heads is not None:
            return heads
    if kernel.path == flex.FLEX:
        record_kernel(flex.FLEX)
        return flex.attend(parts, inputs, value)
    pair, terms = split(parts, inputs)
    if kernel.path in (FLASH, UNPADDED) and pair is not None:
        return flash(pair, value, inputs, one_size=kernel.path == FLASH)
    record_kernel(BLOCKS)
    heads = by_blocks(pair, terms, value.permute(2, 0, 1, 3), mask, causal, kernel)
    return heads.permute(1, 2, 0, 3)


Parts = list[tuple[Component, Tensor | None]]  # components with their weights in the mixture


def split(parts: Parts, inputs: ForwardInputs) -> tuple[Features | None, list[Rows]]:
    """The components with features, joined to one pair, and the others as rows."""
    pairs, terms = [], []
    for component, weight in parts:
        if has_features(component):
            pairs.append(features_of(component, inputs, weight))
        else:
            terms.append(term_of(component, inputs, weight))
    if "position_bias" in inputs.p:  # [1,H,L,L], of the model around the mixer
        terms.append(logits_term(inputs.p["position_bias"]))
    return join(pairs) if pairs else None, terms


def weights_of(mixer: Attention, inputs: ForwardInputs) -> list[Tensor | None]:
    """The weight [H or 1] of each component; None if they are added without weights."""
    alpha = inputs.p.get("alpha")
    if alpha is None:
        return [None] * len(mixer.components)
    return list(softmax(alpha, axis=0).reshape(len(mixer.components), -1).unbind())


def by_blocks(
    pair: Features | None,
    terms: list[Rows],
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    kernel: Kernel,
) -> Tensor:
    """`blockwise.attend` of a pair [B or 1,H,L,f] as it is here; value [H,b,L,c] -> [H,b,L,c]."""
    if pair is not None:
        query, key = (features.swapaxes(0, 1).contiguous() for features in pair)
        pair = query, key
    return blockwise.attend(pair, terms, value.contiguous(), mask, causal, kernel=kernel)


def shared(
    value: Tensor, inputs: ForwardInputs, product: Callable[[Tensor], Tensor]
) -> Tensor | None:
    """Weights shared by the batch, times the values [B,L,H,k] of all examples side by side.

    `product` takes [H,1,L,c] to weights times it. Padded keys have values of zero; what they weigh
    is taken out by a division by the weight of the others: Y = (P (m V)) / (P m). None where the
    others weigh too little for that (their exponentials underflow).
    """
    B, L, H, k = value.shape
    columns = value.permute(2, 1, 0, 3).reshape(H, 1, L, B * k)
    mask = inputs.padding_mask
    if mask is None:
        return product(columns).reshape(H, L, B, k).permute(2, 1, 0, 3)
    seen = mask.T.to(value.dtype).expand(H, 1, L, B)
    heads, weight = product(torch.cat([columns, seen], -1)).split([B * k, B], -1)
    weight = torch.where(sees_a_key(mask, inputs.causal).T, weight, 1)  # [H,1,L,B]
    if exists(weight) and bool((weight < torch.finfo(weight.dtype).tiny ** 0.75).any()):
        return None
    heads = heads.reshape(H, L, B, k) / weight.reshape(H, L, B, 1)
    return heads.permute(2, 1, 0, 3)


def zero_fully_masked_queries(heads: Tensor, inputs: ForwardInputs) -> Tensor:
    """Heads [B,L,H,k] with zeros for queries that see no key."""
    if inputs.padding_mask is None:
        return heads
    return torch.where(sees_a_key(inputs.padding_mask, inputs.causal)[..., None, None], heads, 0)


def sees_a_key(padding_mask: Tensor, causal: bool) -> Tensor:
    """Whether a query sees a real key: [B,L], or [B,1] if all queries see the same keys."""
    if causal:
        return padding_mask.cumsum(1) > 0
    return padding_mask.any(1, keepdim=True)


def exists(x: Tensor) -> bool:
    """Whether a tensor has values that can be read now."""
    return has_values(x) and not torch.compiler.is_compiling()
