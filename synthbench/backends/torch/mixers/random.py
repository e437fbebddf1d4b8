"""R and Fix in PyTorch; the equations are in synthbench/mixers/random.py."""

from __future__ import annotations

from torch import Tensor

from synthbench.mixers.random import FixedRandom, Random


def random(
    component: Random,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """S = the trained logits, cut to the length of x [1,H,L,L]."""
    L = x.shape[1]
    return p["random.logits"][None, :, :L, :L]


def fixed_random(
    component: FixedRandom,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """S = the constant logits, cut to the length of x [1,H,L,L]."""
    L = x.shape[1]
    return p["fixed_random.logits"][None, :, :L, :L]
