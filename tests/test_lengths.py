"""Lengths at both ends: 0 is refused with the range that is allowed, 1 and max_len are computed."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import synthbench
from synthbench.errors import ShapeError
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from tests.variants import VARIANTS

SIZES: dict[str, Any] = {"heads": 2, "max_len": 6}
KINDS = ["V", "R", "FD", "linformer", "light_conv", "dynamic_conv"]


@pytest.mark.parametrize("length", [0, 7])
@pytest.mark.parametrize("variant", KINDS)
def test_a_length_outside_the_range_is_refused(variant: str, length: int) -> None:
    range_named = f"length {length} does not fit max_len 6; use a length from 1 to 6"
    x = np.ones((2, length, 8), dtype=np.float32)
    p = synthbench.initialize(variant, d_model=8, **SIZES)
    for framework in ("numpy", "torch", "jax"):
        with pytest.raises(ShapeError, match=range_named):
            synthbench.apply(variant, p, x, framework=framework, **SIZES)
    with pytest.raises(ShapeError, match=range_named):
        synthbench.torch_module(variant, d_model=8, **SIZES)(torch.tensor(x))
    with pytest.raises(ShapeError, match=range_named):
        synthbench.nnx_module(variant, d_model=8, **SIZES)(jnp.asarray(x))


def test_no_size_may_be_zero() -> None:
    for name in ("batch", "seq_len"):
        with pytest.raises(ShapeError, match=f"{name} is 0; it must be at least 1"):
            synthbench.cost("V", **{"batch": 1, "seq_len": 1, "d_model": 8, **SIZES, name: 0})
    for name in ("d_model", "heads", "max_len", "head_dim"):
        with pytest.raises(ShapeError, match=f"{name} is 0; it must be at least 1"):
            Sizes.of(**{"d_model": 8, "heads": 2, "max_len": 6, "head_dim": 4, name: 0})
    with pytest.raises(ShapeError, match=r"x has shape \(0, 6, 8\).*each at least 1"):
        synthbench.apply("R", synthbench.initialize("R", d_model=8, **SIZES), np.ones((0, 6, 8)),
                         **SIZES)  # fmt: skip


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_shortest_lengths_are_those_of_the_reference(variant: str, length: int) -> None:
    """Also where the only token is padded, and where max_len itself is 1."""
    mixer = parse(variant)
    max_len = 12 if "a=2, b=6" in variant else length
    sizes = Sizes.of(d_model=8, heads=2, max_len=max_len)
    random = np.random.default_rng(length)
    p = {
        name: value + 0.3 * random.standard_normal(value.shape)
        for name, value in synthbench.initialize(
            variant, d_model=8, heads=2, max_len=max_len
        ).items()
    }
    x = random.standard_normal((2, length, 8))
    mask = np.ones((2, length), dtype=bool)
    mask[1] = False
    for form in ("reference", "fused"):
        for padding_mask in (None, mask):
            for causal in (False,) if mixer.name == "linformer" else (False, True):
                want = mixer.reference(p, x, sizes, padding_mask=padding_mask, causal=causal)
                got = synthbench.apply(
                    variant, p, x, heads=2, max_len=max_len, framework="torch", form=form,
                    dtype="float64", padding_mask=padding_mask, causal=causal,
                )  # fmt: skip
                np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
