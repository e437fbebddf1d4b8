"""Linformer in PyTorch; the equation is in synthbench/mixers/linformer.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.torch.cpu_matmul import product
from synthbench.backends.torch.mixers.numerics import choose, project, softmax, zero_padded
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


def fused(
    mixer: Linformer,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same by one fused attention over r keys.

    Compressing along length and projecting channels commute: X is compressed before it is
    projected, which makes r rows of keys and values in place of L.
    """
    choose("scaled_dot_product_attention")
    L, shown = x.shape[1], zero_padded(x, padding_mask)
    for_keys = p["key_projection"][:L].T @ shown  # [B,r,d]
    for_values = for_keys
    if mixer.sharing == "none":
        for_values = p[mixer.value_projection_name][:L].T @ shown
    query, key, value = (
        project(inputs, p[name], times=product).swapaxes(1, 2)
        for inputs, name in ((x, "query"), (for_keys, "key"), (for_values, "value"))
    )
    heads = F.scaled_dot_product_attention(query, key, value).swapaxes(1, 2)
    return product(heads.flatten(2), p["output"].flatten(0, 1))
