"""The gradient with respect to X: fused forms have the reference form's, by every kernel.

A step of a single mixer needs only the gradients of its parameters; in a stack, those below it
depend on this one. And gradients of logits that are parameters, in the sizes of a suite.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from synthbench.backends.jax.mixers import fused_attention as fused_in_jax
from synthbench.backends.jax.mixers.catalog import MIXERS as JAX_MIXERS
from synthbench.backends.jax.precision import full_precision
from synthbench.backends.torch.mixers import fused_attention as fused_in_torch
from synthbench.backends.torch.mixers.catalog import MIXERS as TORCH_MIXERS
from synthbench.backends.torch.mixers.flash import FLASH
from synthbench.kernel import Kernel
from synthbench.mixers.base import Array
from synthbench.mixers.notation import parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from tests.variants import VARIANTS

SIZES = Sizes.of(d_model=8, heads=2, max_len=12)
X = np.random.default_rng(0).standard_normal((3, 7, 8))
MASK = np.ones((3, 7), dtype=bool)
MASK[0, 0] = MASK[1, 4:] = False
DY = np.random.default_rng(1).standard_normal(X.shape)
PATHS = (fused_in_torch.BLOCKS, fused_in_torch.SHARED_BLOCKS, FLASH)
OF_EACH_KIND = [
    "V", "R+V", "FR+V", "D", "FD", "conv", "bottleneck", "glu", "linformer(rank=3)", "light_conv",
    "conv_relu_conv(first=2, second=5, bias=true)", "dynamic_conv",
    "bottleneck_conv(width=3, first=1, second=4, bias=true)",
]  # fmt: skip


def start_of(variant: str) -> dict[str, Array]:
    noise = np.random.default_rng(2)
    return {
        name: value + 0.3 * noise.standard_normal(value.shape)
        for name, value in start_values(parse(variant).parameters(SIZES), seed=4).items()
    }


def cases(variant: str) -> list[tuple[Array | None, bool]]:
    """Without and with padding; then causal, where the variant can be."""
    return [(None, False), (MASK, False)] + [(MASK, True)] * ("linformer" not in variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_in_torch(variant: str) -> None:
    mixer: Any = parse(variant)
    module, start = TORCH_MIXERS[mixer.name], start_of(variant)
    p = {name: torch.tensor(value) for name, value in start.items()}

    def gradient(form: Any, mask: Array | None, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor(X, requires_grad=True)
        y = form(mixer, p, x, None if mask is None else torch.tensor(mask), causal)
        (found,) = torch.autograd.grad(y, x, torch.tensor(DY))
        return y.detach(), found

    forms = [module.fused]
    if mixer.name == "attention":
        offered = fused_in_torch.kernels(mixer, p, torch.tensor(X, requires_grad=True))
        paths = {kernel.path: kernel for kernel in offered if kernel.path in PATHS}
        small = [Kernel(path, queries=3, logits=60) for path in paths if "blocks" in path]
        assert small
        forms = [
            partial(fused_in_torch.fused, kernel=kernel) for kernel in (*paths.values(), *small)
        ]
    for mask, causal in cases(variant):
        wanted = gradient(module.reference, mask, causal)
        for form in forms:
            torch.testing.assert_close(gradient(form, mask, causal), wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("variant", ["R", "R+FD", "R+conv", "conv+R", "R+glu"])
@pytest.mark.parametrize("queries", [3, 12])
def test_of_logits_that_are_parameters(variant: str, queries: int) -> None:
    """One example as long as the logits: their gradient can be written where it is wanted.

    Beside another component, that one needs it too.
    """
    mixer: Any = parse(variant)
    module, start = TORCH_MIXERS[mixer.name], start_of(variant)
    values = [np.random.default_rng(3).standard_normal((1, SIZES.max_len, 8)), *start.values()]
    path = fused_in_torch.SHARED_BLOCKS if len(mixer.components) == 1 else fused_in_torch.BLOCKS
    kernel = Kernel(path, queries=queries, logits=queries * SIZES.max_len)

    def gradients(form: Any, causal: bool) -> list[torch.Tensor]:
        x, *rest = (torch.tensor(value, requires_grad=True) for value in values)
        y = form(mixer, dict(zip(start, rest, strict=True)), x, None, causal)
        return [y.detach(), *torch.autograd.grad(y.square().sum(), [x, *rest])]

    for causal in (False, True):
        got = gradients(partial(fused_in_torch.fused, kernel=kernel), causal)
        wanted = gradients(module.reference, causal)
        torch.testing.assert_close(got, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("variant", OF_EACH_KIND)
def test_in_jax(variant: str) -> None:
    mixer: Any = parse(variant)
    module, start = JAX_MIXERS[mixer.name], start_of(variant)
    mask, causal = cases(variant)[-1]
    assert mask is not None
    with full_precision("float64"):
        p = {name: jnp.asarray(value) for name, value in start.items()}
        form = module.fused
        if mixer.name == "attention":
            found = fused_in_jax.kernels(mixer, p, jnp.asarray(X), jnp.asarray(mask), trained=True)
            kernel = next(kernel for kernel in found if "blocks" in kernel.path)
            form = partial(fused_in_jax.fused, kernel=kernel)
        wanted, got = (
            jax.jit(jax.grad(partial(_weighted, mixer, each, p, mask, causal)))(jnp.asarray(X))
            for each in (module.reference, form)
        )
    np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)
    assert np.abs(wanted).max() > 0.01


def _weighted(mixer: Any, form: Any, p: Any, mask: Array, causal: bool, x: jax.Array) -> jax.Array:
    return (form(mixer, p, x, jnp.asarray(mask), causal) * DY).sum()
