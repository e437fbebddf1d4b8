"""The reference form in JAX copies nothing that plain code does not: XLA plans no more memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import synthbench
from benchmarks.peers.textbook_jax import layer
from synthbench.backends.jax.mixers.attention import reference
from synthbench.mixers.attention import Attention
from synthbench.mixers.notation import parse

B, L, D, H = 3, 64, 32, 4
VARIANTS = (
    "V", "R", "FR", "D", "D(sharing=heads)", "D(sharing=full)", "D(bias=true)", "D+V", "R+V",
    "FR+V", "D(tie_query=true)+V",
)  # fmt: skip


def temporary_bytes(output: Callable[..., Any], p: dict[str, Any], x: Any) -> int:
    """What XLA plans for intermediate results of a loss and its gradients."""
    step = jax.jit(jax.value_and_grad(lambda p, x: jnp.mean(output(p, x) ** 2)))
    analysis = step.lower(p, x).compile().memory_analysis()
    assert analysis is not None
    return int(analysis.temp_size_in_bytes)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_train_step_needs_no_more_memory_than_textbook_code(variant: str) -> None:
    mixer = parse(variant)
    assert isinstance(mixer, Attention)
    start = synthbench.initialize(variant, d_model=D, heads=H, max_len=L)
    p = {name: jnp.asarray(value) for name, value in start.items()}
    x = jnp.asarray(np.random.default_rng(0).standard_normal((B, L, D)), jnp.float32)
    ours = temporary_bytes(lambda p, x: reference(mixer, p, x, None, False), p, x)
    assert ours <= 1.02 * temporary_bytes(layer(variant), p, x)
