"""Synthetic attention in PyTorch; the equations are in synthbench/mixers/attention.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.kernel_choice import choose
from synthbench.backends.kernel_record import REFERENCE_KERNEL
from synthbench.backends.torch.mixers import components, fused_attention
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    add_bias,
    attention_mask,
    masked_softmax,
    mix,
    record_kernel,
    zero_padded,
)
from synthbench.mixers.attention import Attention


def reference(
    mixer: Attention,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The equations as written, the weights [B or 1, H, L, L] in memory."""
    inputs = ForwardInputs(p, x, padding_mask, causal)
    logits = [components.logits(component, inputs) for component in mixer.components]
    mask = attention_mask(x, padding_mask, causal)
    mixed = mix(logits, p.get("alpha"))
    if "position_bias" in p:  # [1,H,L,L], of the model around the mixer
        mixed = mixed + p["position_bias"]
    weights = masked_softmax(mixed, mask)
    value = zero_padded(inputs.project("value"), padding_mask)  # 0 weight x NaN would be NaN
    weights = torch.broadcast_to(weights, (x.shape[0], *weights.shape[1:]))
    heads = torch.einsum("bhlm,bmhk->blhk", weights, value)
    y = torch.einsum("blhk,hkd->bld", heads, p["output"])
    return add_bias(y, p.get("output_bias"))


def fused(
    mixer: Attention,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same numbers, no [B,H,L,L] in memory; the reference form where that is faster."""
    kernel = choose(fused_attention.kernels(mixer, p, x, padding_mask))
    if kernel.path == REFERENCE_KERNEL:
        record_kernel(REFERENCE_KERNEL)
        return reference(mixer, p, x, padding_mask, causal)
    return fused_attention.fused(mixer, p, x, padding_mask, causal, kernel)
