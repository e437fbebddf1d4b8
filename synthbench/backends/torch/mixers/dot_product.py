"""V in PyTorch; the equation is in synthbench/mixers/dot_product.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import ForwardInputs
from synthbench.mixers.dot_product import DotProduct


def logits(component: DotProduct, inputs: ForwardInputs) -> Tensor:
    """S = Q K^T / sqrt(k) [B,H,L,L]."""
    query, key = inputs.project("dot_product.query"), inputs.project("dot_product.key")
    return torch.einsum("blhk,bmhk->bhlm", query * query.shape[-1] ** -0.5, key)
