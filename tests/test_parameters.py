"""Declared = torch's own = flax's own parameter counts, for random sizes."""

from __future__ import annotations

import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.backends.jax.model import build_model as build_jax
from synthbench.backends.jax.module import Constant
from synthbench.backends.torch.model import build_model as build_torch
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from tests.variants import VARIANTS

OWN_MAX_LEN = {"FD(a=2, b=6)": 12}


@pytest.mark.parametrize("variant", VARIANTS)
@given(
    heads=st.integers(1, 6), head_dim=st.integers(1, 9), max_len=st.integers(2, 40),
    layers=st.integers(1, 3),
)  # fmt: skip
@settings(max_examples=6, deadline=None)
def test_counts_agree(variant: str, heads: int, head_dim: int, max_len: int, layers: int) -> None:
    sizes = Sizes.of(
        d_model=heads * head_dim, heads=heads, max_len=OWN_MAX_LEN.get(variant, max_len)
    )
    model = Model.of("encoder", parse(variant), sizes, layers=layers, feed_forward=5, vocabulary=11)
    declared = model.parameters().values()
    trained = sum(p.size for p in declared if p.trainable)
    constant = sum(p.size for p in declared if not p.trainable)

    torch_module = build_torch(model, "auto", device="meta")
    assert sum(p.numel() for p in torch_module.parameters()) == trained
    assert sum(b.numel() for b in torch_module.buffers()) == constant

    jax_module = build_jax(model, "auto", np.float32)
    for kind, count in ((nnx.Param, trained), (Constant, constant)):
        leaves = nnx.to_flat_state(nnx.state(jax_module, kind))
        assert sum(int(np.prod(v.shape)) for _, v in leaves) == count
