"""Outputs in PyTorch without gradients, where some forms take another way, are those with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from synthbench.backends.kernel_choice import using_kernel
from synthbench.backends.torch.mixers import dynamic_conv, fused_attention, light_conv
from synthbench.backends.torch.mixers.catalog import MIXERS
from synthbench.kernel import Kernel
from synthbench.mixers.notation import parse
from tests.test_input_gradients import MASK, X, cases, start_of
from tests.variants import VARIANTS


def offered(mixer: Any, p: dict[str, torch.Tensor], x: torch.Tensor) -> list[Kernel | None]:
    """Every kernel of a form; None: the form has one only."""
    if mixer.name == "attention":
        found = fused_attention.kernels(mixer, p, x)
        small = [Kernel(k.path, k.products, queries=3, logits=60) for k in found if k.queries]
        return [*found, *small]
    if mixer.name == "dynamic_conv":
        return [*dynamic_conv.kernels(p, x)]
    if mixer.name == "light_conv":
        found = light_conv.kernels(mixer, p, x)
        return [kernel for kernel in found if "compile" not in kernel.path]  # takes long
    return [None]


@pytest.mark.parametrize("variant", VARIANTS)
def test_outputs_without_gradients(variant: str) -> None:
    mixer: Any = parse(variant)
    form = MIXERS[mixer.name]
    x = torch.tensor(X)
    p = {n: torch.tensor(value, requires_grad=True) for n, value in start_of(variant).items()}
    for mask, causal in cases(variant):
        padding = None if mask is None else torch.tensor(MASK)
        wanted = form.reference(mixer, p, x, padding, causal)
        assert wanted.requires_grad
        with torch.no_grad():
            got = form.reference(mixer, p, x, padding, causal)
            torch.testing.assert_close(got, wanted.detach(), rtol=1e-12, atol=1e-12)
            for kernel in offered(mixer, p, x):
                with using_kernel(kernel):
                    got = form.fused(mixer, p, x, padding, causal)
                torch.testing.assert_close(got, wanted.detach(), rtol=1e-9, atol=1e-10)


def test_a_sum_in_bfloat16_is_not_rounded_at_each_term() -> None:
    """Each of 1023 terms is 1/1023 of about 1; rounded one by one they are off."""
    u = torch.ones((1, 1200, 2), dtype=torch.bfloat16)
    generator = torch.zeros((2, 2, 1023), dtype=torch.bfloat16)
    with torch.no_grad():
        y = dynamic_conv.shifted_products(u, generator, causal=False)[0, 600]
    torch.testing.assert_close(y.float(), torch.ones(2), rtol=0.005, atol=0)
