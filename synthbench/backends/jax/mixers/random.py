"""R and Fix in JAX; the equations are in synthbench/mixers/random.py."""

from __future__ import annotations

from jax import Array

from synthbench.mixers.random import FixedRandom, Random


def random(
    component: Random,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """S = the trained logits, cut to the length of x [1,H,L,L]."""
    L = x.shape[1]
    return p["random.logits"][None, :, :L, :L]


def fixed_random(
    component: FixedRandom,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """S = the constant logits, cut to the length of x [1,H,L,L]."""
    L = x.shape[1]
    return p["fixed_random.logits"][None, :, :L, :L]
