"""Gradients of gradients in PyTorch: right, or refused with a message, never wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from synthbench.backends.torch.cpu_matmul import ONEDNN, has_onednn, product_of
from synthbench.backends.torch.mixers import attention, fused_attention
from synthbench.errors import UnsupportedError
from synthbench.kernel import Kernel
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values

L = 5
SIZES = Sizes.of(d_model=8, heads=2, max_len=L)
REFUSED = r"no gradients of its gradients \(create_graph=True\); make the .*form=\"reference\""


def parameters(variant: str) -> dict[str, torch.Tensor]:
    made = start_values(parse(variant).parameters(SIZES))
    return {name: torch.from_numpy(value).double().requires_grad_() for name, value in made.items()}


@pytest.mark.parametrize("queries", [2, L])
@pytest.mark.parametrize("variant", ["V", "R", "FR", "glu", "R+V"])
def test_blocks_refuse_them(variant: str, queries: int) -> None:
    """Also where one block holds all, whose weights are kept as constants."""
    mixer: Any = parse(variant)
    x = torch.randn(2, L, 8, dtype=torch.float64, requires_grad=True)
    path = fused_attention.SHARED_BLOCKS if variant in ("R", "FR") else fused_attention.BLOCKS
    kernel = Kernel(path, queries=queries, logits=2**20)
    y = fused_attention.fused(mixer, parameters(variant), x, None, False, kernel)
    with pytest.raises(UnsupportedError, match=REFUSED):
        torch.autograd.grad(y.square().sum(), [x], create_graph=True)


@pytest.mark.parametrize("variant", ["V", "R", "FR", "glu", "R+V"])
def test_the_reference_form_has_them(variant: str) -> None:
    mixer: Any = parse(variant)
    p = parameters(variant)
    x = torch.randn(1, L, 8, dtype=torch.float64, requires_grad=True)

    def y(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return attention.reference(mixer, dict(zip(p, values, strict=True)), x, None, False)

    assert torch.autograd.gradgradcheck(y, [x, *p.values()])


@pytest.mark.skipif(not has_onednn(), reason="this build of PyTorch has no oneDNN")
def test_a_product_by_onednn_refuses_them() -> None:
    left, right = (torch.randn(128, 128, requires_grad=True) for _ in range(2))
    made = product_of(ONEDNN)(left, right)
    with pytest.raises(UnsupportedError, match=REFUSED):
        torch.autograd.grad(made.square().sum(), [left], create_graph=True)
