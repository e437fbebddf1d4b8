"""Linformer in PyTorch; the equation is in synthbench/mixers/linformer.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import project, softmax, zero_padded
from synthbench.mixers.linformer import Linformer


def reference(
    mixer: Linformer,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """softmax(Q K'^T / sqrt(k)) V', then output."""
    L = x.shape[1]
    query = project(x, p["query"])
    key = zero_padded(project(x, p["key"]), padding_mask)
    value = zero_padded(project(x, p["value"]), padding_mask)
    key = torch.einsum("bmhk,mr->brhk", key, p["key_projection"][:L])
    value = torch.einsum("bmhk,mr->brhk", value, p[mixer.value_projection_name][:L])
    logits = torch.einsum("blhk,brhk->bhlr", query * query.shape[-1] ** -0.5, key)
    heads = torch.einsum("bhlr,brhk->blhk", softmax(logits, axis=-1), value)
    return torch.einsum("blhk,hkd->bld", heads, p["output"])
