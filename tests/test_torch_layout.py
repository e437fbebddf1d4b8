"""Logits that have heads first in memory, as a product per head leaves them, are not copied."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from synthbench.backends.torch.mixers.numerics import (
    affine,
    has_heads_first,
    masked_softmax,
    mix,
    softmax,
    weighted,
)

B, H, L = 3, 2, 5


def random(*shape: int, heads_first: bool, seed: int = 0) -> Tensor:
    """[B,H,..] in float64, with its heads or its examples first in memory."""
    made = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made.transpose(0, 1).contiguous().transpose(0, 1) if heads_first else made


@pytest.mark.parametrize("heads_first", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_weights_keep_the_order_of_logits_in_memory(heads_first: bool, masked: bool) -> None:
    logits = random(B, H, L, L, heads_first=heads_first)
    mask = torch.ones(L, L, dtype=torch.bool).tril()[None, None] if masked else None
    weights = masked_softmax(logits, mask)
    hidden = logits if mask is None else logits.masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(weights, torch.softmax(hidden, -1), rtol=1e-12, atol=1e-14)
    assert has_heads_first(weights) is heads_first
    assert weights.is_contiguous() is not heads_first


@pytest.mark.parametrize("heads_first", [True, False])
def test_weighted_values_are_those_of_the_equation(heads_first: bool) -> None:
    weights = random(B, H, L, L, heads_first=heads_first)
    value = torch.randn(B, L, H, 4, dtype=torch.float64)
    expected = torch.stack(
        [torch.stack([weights[b, h] @ value[b, :, h] for h in range(H)], dim=1) for b in range(B)]
    )
    torch.testing.assert_close(weighted(weights, value), expected, rtol=1e-12, atol=1e-12)


def test_gradients_do_not_depend_on_the_order_in_memory() -> None:
    value = torch.randn(B, L, H, 4, dtype=torch.float64)
    found = []
    for heads_first in (True, False):
        logits = random(B, H, L, L, heads_first=heads_first).requires_grad_()
        weighted(softmax(logits, axis=-1), value).square().sum().backward()
        found.append(logits.grad)
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)


def test_one_example_is_in_either_order() -> None:
    assert not has_heads_first(random(1, H, L, L, heads_first=True))
    assert not has_heads_first(torch.ones(2, 3, 4).transpose(0, 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("per_head", [True, False])
def test_a_mixture_is_the_sum_of_its_weighted_logits(dtype: torch.dtype, per_head: bool) -> None:
    """One of them the same for all examples, one with its heads first, one with examples first."""
    logits = [
        random(1, H, L, L, heads_first=False),
        random(B, H, L, L, heads_first=True, seed=1),
        random(B, H, L, L, heads_first=False, seed=2),
    ]
    alpha = torch.randn(3, *[H] * per_head, dtype=torch.float64)
    shares = torch.softmax(alpha, 0).reshape(3, -1)
    expected = sum(share[:, None, None] * s for share, s in zip(shares, logits, strict=True))
    tolerance = 1e-12 if dtype == torch.float64 else 5e-2
    for with_gradients in (True, False):
        with torch.set_grad_enabled(with_gradients):
            found = mix([s.to(dtype) for s in logits], alpha.to(dtype))
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("biased", [True, False])
def test_a_bias_is_added_whichever_product_is_taken(biased: bool) -> None:
    """PyTorch's own adds it within the product; another, as oneDNN's, does not."""
    x, weight = torch.randn(B, L, 4, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    bias = torch.randn(6, dtype=torch.float64) if biased else None
    expected = torch.einsum("bld,dn->bln", x, weight) + (0 if bias is None else bias)
    for times in (torch.matmul, lambda one, other: one @ other):
        found = affine(x, weight, bias, times)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
