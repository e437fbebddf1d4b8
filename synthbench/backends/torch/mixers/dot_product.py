"""V in PyTorch; the equation is in synthbench/mixers/dot_product.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import project
from synthbench.mixers.dot_product import DotProduct


def logits(
    component: DotProduct,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """S = Q K^T / sqrt(k) [B,H,L,L]."""
    query = project(x, p["dot_product.query"], p.get("dot_product.query_bias"))
    key = project(x, p["dot_product.key"], p.get("dot_product.key_bias"))
    return torch.einsum("blhk,bmhk->bhlm", query * query.shape[-1] ** -0.5, key)
