"""FR in PyTorch; the equation is in synthbench/mixers/factorized_random.py."""

from __future__ import annotations

import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import Given
from synthbench.mixers.factorized_random import FactorizedRandom


def logits(component: FactorizedRandom, given: Given) -> Tensor:
    """S = left right^T, cut to the length of x [1,H,L,L]."""
    L = given.x.shape[1]
    left = given.p["factorized_random.left"][:, :L]
    right = given.p["factorized_random.right"][:, :L]
    return torch.einsum("hlr,hmr->hlm", left, right)[None]
