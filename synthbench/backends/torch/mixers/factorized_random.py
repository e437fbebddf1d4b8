"""FR in PyTorch; the equation is in synthbench/mixers/factorized_random.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.mixers.factorized_random import FactorizedRandom


def logits(
    component: FactorizedRandom,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """S = left right^T, cut to the length of x [1,H,L,L]."""
    L = x.shape[1]
    left = p["factorized_random.left"][:, :L]
    right = p["factorized_random.right"][:, :L]
    return torch.einsum("hlr,hmr->hlm", left, right)[None]
