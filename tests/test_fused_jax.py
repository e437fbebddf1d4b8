"""The fused forms in JAX against the reference forms: outputs, gradients, memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench.backends.base import Setting
from synthbench.backends.jax import backend
from synthbench.backends.jax.mixers import attention
from synthbench.backends.jax.mixers.catalog import MIXERS
from synthbench.backends.jax.precision import full_precision
from synthbench.backends.kernel_record import force_long_kernels
from synthbench.backends.torch.mixers.catalog import MIXERS as TORCH_MIXERS
from synthbench.measure.inputs import random_batch
from synthbench.measure.parity_inputs import small_model
from synthbench.mixers.attention import Attention
from synthbench.mixers.notation import parse
from synthbench.mixers.random import Random
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model
from synthbench.models.start_values import start_values

quick = settings(deadline=None, max_examples=4, derandomize=True)

TOLERANCE = {"float32": 2e-5, "float64": 1e-10}


def compare(
    variant: str, dtype: str, seq_len: int, mask: Any, causal: bool, seed: int = 0, **sizes: Any
) -> None:
    """Outputs and gradients of the fused form on one input.

    They are compared with those of the reference form in PyTorch, in float64 and not compiled:
    test_parity.py compares the reference forms of both frameworks.
    """
    model = small_model(variant, **sizes)
    mixer, name = model.mixer, parse(variant).name
    random = np.random.default_rng(seed)
    values = {
        n: (v + random.normal(0, 0.3, v.shape)).astype(dtype)
        for n, v in start_values(mixer.parameters(model.sizes), seed=seed).items()
    }
    x, direction = (
        random.standard_normal((3, seq_len, model.sizes.d_model)).astype(dtype) for _ in range(2)
    )
    constant = {n for n, p in mixer.parameters(model.sizes).items() if not p.trainable}

    tensors = {n: torch.tensor(v, dtype=torch.float64) for n, v in {**values, "x": x}.items()}
    trained = [t.requires_grad_() for n, t in tensors.items() if n not in constant]
    p = {n: t for n, t in tensors.items() if n != "x"}
    y = TORCH_MIXERS[name].reference(mixer, p, tensors["x"], torch.tensor(np.array(mask)), causal)
    (y * torch.tensor(direction, dtype=torch.float64)).sum().backward()
    expected = {n: t.grad.numpy() for n, t in tensors.items() if t.grad is not None}
    assert len(expected) == len(trained)

    with full_precision(dtype):
        forward = partial(MIXERS[name].fused, mixer, padding_mask=jnp.asarray(mask), causal=causal)

        def loss(p: Any, x: Any) -> Any:
            y = forward(p, x)
            return (y * direction).sum(), y

        step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
        with force_long_kernels():  # several blocks, though the input is short
            (_, got), (gradients, d_x) = jax.device_get(step(values, x))
    require_close(got, y.detach().numpy(), TOLERANCE[dtype], variant)
    largest = max(float(np.abs(g).max()) for g in expected.values())
    for n, g in {**gradients, "x": d_x}.items():
        if n in constant:
            assert not g.any()
            continue
        scale = max(float(np.abs(expected[n]).max()), largest / 100) or 1.0
        require_close(g / scale, expected[n] / scale, TOLERANCE[dtype], f"{variant} {n}", scale=1.0)


def require_close(got: Any, expected: Any, tolerance: float, what: str, scale: float = 0) -> None:
    scale = scale or float(np.abs(expected).max())
    assert np.isfinite(got).all(), what
    error = float(np.abs(got - expected).max()) / (scale or 1)
    assert error <= tolerance, f"{what}: off by {error}"


# One of each kind of term, and of each kernel; test_parity.py has every variant and mask.
KINDS = ["V", "R", "FR", "FR+V", "R+V", "Fix+D", "FD", "glu", "conv", "linformer", "light_conv"]


@pytest.mark.parametrize("variant", [*KINDS, "dynamic_conv"])
def test_no_key_left_and_no_multiple_of_the_block(variant: str) -> None:
    """One example padded whole, one at both ends; a length below N that no block divides."""
    mask = np.ones((3, 11), bool)
    mask[0, 7:] = mask[1, :3] = mask[2] = False
    causal = parse(variant).name != "linformer"
    compare(variant, "float64", 11, mask, causal)


@quick
@given(st.sampled_from(["FR", "R+V", "D+V"]), st.integers(1, 12), st.booleans(), st.data())
def test_any_length_and_mask(variant: str, seq_len: int, causal: bool, data: Any) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=3 * seq_len, max_size=3 * seq_len))
    compare(variant, "float32", seq_len, np.array(mask).reshape(3, seq_len), causal)


def test_logits_far_apart_keep_what_padding_leaves() -> None:
    """The highest logit of a row is padded in one example, and the rest lies 1000 below it."""
    sizes = Sizes.of(d_model=8, heads=2, max_len=6)
    p = {n: jnp.asarray(v) for n, v in start_values(parse("R").parameters(sizes), seed=0).items()}
    p["random.logits"] = p["random.logits"].at[:, :, 0].set(1000)
    x = jnp.asarray(np.random.default_rng(0).standard_normal((2, 6, 8)), jnp.float32)
    mask = jnp.ones((2, 6), bool).at[0, 0].set(False)
    with full_precision("float32"):
        got, expected = (
            form(Attention((Random(),)), p, x, mask, False)
            for form in (attention.fused, attention.reference)
        )
    require_close(got, expected, 2e-5, "R")


def temporaries(variant: str, seq_len: int) -> int:
    """Bytes that XLA plans for a train step beside what it is given and gives back."""
    model = Model.of("mixer", parse(variant), Sizes.of(d_model=16, heads=2, max_len=seq_len))
    start = {n: np.zeros(p.shape, np.float32) for n, p in model.parameters().items()}
    step = backend.build(
        model, start, Setting(form="fused"), "train", random_batch(model, 2, seq_len)
    )
    step.compile()
    plan = step.memory_plan()
    assert plan is not None and plan.temporary_bytes > 0
    given = model.parameters().get("mixer.random.logits")
    table = 0 if given is None else 4 * int(np.prod(given.shape))
    return plan.temporary_bytes - table  # R: its gradient


@pytest.mark.long_but("V", "FR", "light_conv")
@pytest.mark.parametrize(
    "variant", ["V", "D", "FR", "D+V", "FR+V", "R+V", "linformer", "light_conv", "dynamic_conv"]
)
def test_memory_grows_with_the_length(variant: str) -> None:
    lengths = [1024, 8192]
    low, high = (temporaries(variant, n) for n in lengths)
    assert np.log(high / low) / np.log(lengths[1] / lengths[0]) <= 1.15
