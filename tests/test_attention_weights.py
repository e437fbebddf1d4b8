"""The weights of the NumPy reference by hand: every term of the logits is in them."""

from __future__ import annotations

import numpy as np
import pytest

from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes

SIZES = Sizes.of(d_model=4, heads=2, max_len=3)
X = np.random.default_rng(0).standard_normal((2, 3, 4))


def softmax(x: Array) -> Array:
    exponentials = np.exp(x)
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def parameters(variant: str) -> dict[str, Array]:
    draw = np.random.default_rng(1)
    declared = parse(variant).parameters(SIZES)
    return {name: draw.standard_normal(p.shape) for name, p in declared.items()}


def weights(variant: str, p: dict[str, Array]) -> Array:
    mixer = parse(variant)
    assert isinstance(mixer, Attention)
    return mixer.weights(p, X, SIZES)


def dot_product(p: dict[str, Array]) -> Array:
    """Q K^T / sqrt(2), with the biases of both projections."""
    query, key = (
        np.einsum("bld,dhk->bhlk", X, p[f"dot_product.{name}"])
        + p.get(f"dot_product.{name}_bias", np.zeros((2, 2)))[:, None]
        for name in ("query", "key")
    )
    return np.asarray(query @ key.swapaxes(-1, -2) / np.sqrt(2))


@pytest.mark.parametrize("bias", ["", "(bias=true)"])
def test_both_projections_of_a_dot_product_have_their_bias(bias: str) -> None:
    p = parameters(f"V{bias}")
    assert ("dot_product.key_bias" in p) is bool(bias)
    np.testing.assert_allclose(weights(f"V{bias}", p), softmax(dot_product(p)), rtol=1e-12)


def test_a_position_bias_is_added_to_the_mixed_logits() -> None:
    p = parameters("R+V")
    p["position_bias"] = np.random.default_rng(2).standard_normal((1, 2, 3, 3))
    shares = np.exp(p["alpha"]) / np.exp(p["alpha"]).sum(axis=0)  # [2,H]
    random, dot = shares[:, :, None, None]
    logits = random * p["random.logits"] + dot * dot_product(p) + p["position_bias"]
    np.testing.assert_allclose(weights("R+V", p), softmax(logits), rtol=1e-12)
