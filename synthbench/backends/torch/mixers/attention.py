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
    affine,
    attention_mask,
    masked_softmax,
    mix,
    record_kernel,
    softmax,
    weighted,
    zero_padded,
)
from synthbench.backends.torch.mixers.past import StepInputs
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
    mixed = mix([components.logits(each, inputs) for each in mixer.components], p.get("alpha"))
    if "position_bias" in p:  # [1,H,L,L], of the model around the mixer
        mixed = mixed + p["position_bias"]
    weights = masked_softmax(mixed, attention_mask(x, padding_mask, causal))
    value = zero_padded(inputs.project("value"), padding_mask)  # 0 weight x NaN would be NaN
    weights = torch.broadcast_to(weights, (x.shape[0], *weights.shape[1:]))
    heads = weighted(weights, value)
    if (bias := p.get("output_bias")) is not None:
        return affine(heads.flatten(2), p["output"].flatten(0, 1), bias)
    return torch.einsum("blhk,hkd->bld", heads, p["output"])


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


def kept(mixer: Attention, inputs: ForwardInputs) -> dict[str, Tensor]:
    """What decoding keeps of each position: the values [B,H,L,k], and what each component needs."""
    rows = {"value": inputs.project("value").swapaxes(1, 2)}
    for component in mixer.components:
        rows |= components.kept(component, inputs)
    return rows


def step(mixer: Attention, inputs: StepInputs) -> Tensor:
    """Y [B,1,d] of one position; X [B,1,d]."""
    mixed = mix([components.row(each, inputs) for each in mixer.components], inputs.p.get("alpha"))
    if "position_bias" in inputs.p:  # [1,H,1,keys], of the model around the mixer
        mixed = mixed + inputs.p["position_bias"]
    weights = softmax(inputs.hide_later(mixed), axis=-1)
    value = inputs.extend("value", inputs.project("value").swapaxes(1, 2))
    y = torch.einsum("bhlk,hkd->bld", weights @ value, inputs.p["output"])
    return add_bias(y, inputs.p.get("output_bias"))
