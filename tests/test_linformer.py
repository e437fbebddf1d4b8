"""Linformer: which of two orders of its products is taken, and that both compute the same."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthbench.backends.kernel_record import REFERENCE_KERNEL, recording_kernels
from synthbench.measure import parity
from synthbench.mixers.linformer import Linformer

FRAMEWORKS = ("torch", "jax")
SIZE = st.integers(1, 4096)


@given(d=SIZE, channels=SIZE, L=SIZE, r=SIZE, shared=st.booleans())
def test_the_order_with_fewer_multiplications_is_taken(
    d: int, channels: int, L: int, r: int, shared: bool
) -> None:
    """Each product of [a,b] and [b,c] takes a b c; keys and values share X compressed, or not."""
    compressed = [(r, L, d)] * (1 if shared else 2) + [(r, d, channels)] * 2
    projected = [(L, d, channels), (r, L, channels)] * 2
    mixer = Linformer(rank=r, sharing="kv" if shared else "none")
    assert mixer.compresses_first(d, channels, L) == (
        sum(map(prod, compressed)) <= sum(map(prod, projected))
    )


@pytest.mark.long_but("*-True-kv-*", "2-*-torch")
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("sharing", ["none", "kv"])
@pytest.mark.parametrize(("rank", "head_dim", "plain"), [(40, 1, True), (2, None, False)])
def test_either_order_computes_the_same(
    framework: str, sharing: str, rank: int, head_dim: int | None, plain: bool
) -> None:
    variant = f"linformer(rank={rank}, sharing={sharing})"
    with recording_kernels() as kernels:
        found = parity.collect(framework, variant, "float64", form="fused", head_dim=head_dim)
    assert (list(kernels) == [REFERENCE_KERNEL]) == plain
    reference = parity.collect(framework, variant, "float64", form="reference", head_dim=head_dim)
    for case, got in found.items():
        assert parity.relative_error(got["forward"], got["reference"]) <= 1e-10
        gradients = got["gradients"], reference[case]["gradients"]
        assert parity.gradient_difference(*gradients) <= 1e-10
