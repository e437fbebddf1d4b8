"""PyTorch's fused attention: logits that are one product of features, never in memory."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.torch.mixers.block_logits import Features
from synthbench.backends.torch.mixers.features import number_of_features, pad_features
from synthbench.backends.torch.mixers.numerics import ForwardInputs, record_kernel
from synthbench.mixers.attention import Attention

FLASH = "scaled_dot_product_attention"
UNPADDED = "scaled_dot_product_attention, values of their own size"
# The last feature of a masked key; every query has a one there, so that the logit is this low.
HIDDEN = -1e30


def sizes_may_differ(
    mixer: Attention, p: dict[str, Tensor], x: Tensor, padding_mask: Tensor | None
) -> bool:
    """Whether features and values have different sizes, and PyTorch's fused attention allows it.

    On CUDA, cuDNN's kernel and the memory-efficient one do. The flash kernel and that for CPUs ask
    for one size: on a CPU, PyTorch would make all logits [B,H,L,L] instead.
    """
    if x.device.type != "cuda":
        return False
    counts = [number_of_features(component, p) for component in mixer.components]
    features = sum(count or 0 for count in counts) + (padding_mask is not None)
    return None not in counts and round_up(features) != round_up(p["value"].shape[-1])


def round_up(features: int) -> int:
    """The next multiple of 8, which the kernels for CUDA ask for."""
    return -(-features // 8) * 8


def flash(pair: Features, value: Tensor, inputs: ForwardInputs, *, one_size: bool) -> Tensor:
    """One call of PyTorch's fused attention; padding is an extra feature instead of a mask.

    `one_size`: heads of queries, keys and values get the same size, which the kernel for CPUs asks
    for. On CUDA, sizes are multiples of 8.
    """
    record_kernel(FLASH if one_size else UNPADDED)
    query, key = pair
    B, k = value.shape[0], value.shape[-1]
    if inputs.padding_mask is not None:
        lowest = max(HIDDEN, torch.finfo(key.dtype).min)  # -inf would make gradients NaN
        hidden = torch.where(inputs.padding_mask, 0.0, lowest).to(key.dtype)
        hidden = hidden[:, None, :, None].expand(-1, key.shape[1], -1, -1)
        key = torch.cat([key.expand(B, -1, -1, -1), hidden], -1)
        query = torch.cat([query, query.new_ones(*query.shape[:3], 1)], -1)
    features, channels = query.shape[-1], k
    if one_size:
        features = channels = max(features, channels)
    if value.device.type == "cuda":
        features, channels = round_up(features), round_up(channels)
    query, key = (pad_features(x, features).expand(B, -1, -1, -1) for x in (query, key))
    heads = F.scaled_dot_product_attention(
        query, key, pad_features(value.swapaxes(1, 2), channels), is_causal=inputs.causal, scale=1.0
    )
    return heads[..., :k].swapaxes(1, 2)
