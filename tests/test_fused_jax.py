"""The fused forms in JAX against the reference forms: outputs, gradients, memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from synthbench.backends.choices import as_if_long
from synthbench.backends.jax.mixers.catalog import MIXERS
from synthbench.backends.jax.precision import precision
from synthbench.measure.small import small_model
from synthbench.mixers.notation import parse
from synthbench.models.start import start_values
from tests.variants import VARIANTS

TOLERANCE = {"float32": 2e-5, "float64": 1e-10}


def compare(
    variant: str, dtype: str, seq_len: int, mask: Any, causal: bool, seed: int = 0, **sizes: Any
) -> None:
    """Both forms on one input, padded positions of it NaN in the forward pass."""
    model = small_model(variant, **sizes)
    mixer, twin = model.mixer, MIXERS[parse(variant).name]
    random = np.random.default_rng(seed)
    with precision(dtype):
        p = {
            n: jnp.asarray(v + random.normal(0, 0.3, v.shape), dtype)
            for n, v in start_values(mixer.parameters(model.sizes), seed=seed).items()
        }
        x, direction = (
            jnp.asarray(random.standard_normal((3, seq_len, model.sizes.d_model)), dtype)
            for _ in range(2)
        )

        def run(form: str) -> Any:
            forward = partial(getattr(twin, form), mixer, padding_mask=mask, causal=causal)

            def loss(p: Any, x: Any) -> Any:
                y = forward(p, x)
                return (y * direction).sum(), y

            step = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
            with as_if_long():  # several blocks, though the input is short
                return jax.device_get(step(p, x))

        (_, expected), expected_gradients = run("reference")
        (_, got), gradients = run("fused")
    largest = max(float(np.abs(g).max()) for g in jax.tree.leaves(expected_gradients))
    require_close(got, expected, TOLERANCE[dtype], variant)
    names = jax.tree_util.tree_leaves_with_path(gradients)
    for (path, g), e in zip(names, jax.tree.leaves(expected_gradients), strict=True):
        if "fixed_random.logits" in str(path):
            assert not g.any()
            continue
        scale = max(float(np.abs(e).max()), largest / 100)
        require_close(g / scale, e / scale, TOLERANCE[dtype], f"{variant} {path}", scale=1.0)


def require_close(got: Any, expected: Any, tolerance: float, what: str, scale: float = 0) -> None:
    scale = scale or float(np.abs(expected).max())
    assert np.isfinite(got).all(), what
    error = float(np.abs(got - expected).max()) / (scale or 1)
    assert error <= tolerance, f"{what}: off by {error}"


MASK = np.ones((3, 11), bool)
MASK[0, 7:] = MASK[1, :3] = MASK[2] = False


@pytest.mark.parametrize("variant", VARIANTS)
def test_fused_is_reference(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    L = min(11, small_model(variant).sizes.max_len)
    causal = parse(variant).name != "linformer"
    compare(variant, "float64", L, jnp.asarray(MASK[:, :L]), causal)
    compare(variant, "float32", L, None, False)
