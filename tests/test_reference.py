"""The NumPy reference against the definitions written out in loops, and what masks must hide."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import synthbench
from synthbench.mixers.base import Array, Tensors
from synthbench.mixers.notation import format_mixer, parse
from synthbench.mixers.sizes import Sizes
from synthbench.models.start_values import start_values
from tests.variants import VARIANTS

B, L, N, d, H, k = 2, 5, 6, 8, 2, 4
SIZES = Sizes.of(d_model=d, heads=H, max_len=N)
X = np.random.default_rng(0).standard_normal((B, L, d))
PADDED = np.array([[True] * L, [False, True, True, False, False]])


def parameters_of(variant: str, sizes: Sizes = SIZES) -> dict[str, Array]:
    """Start values in float64, moved off zero so that a bias or alpha shows."""
    start = start_values(parse(variant).parameters(sizes), seed=1)
    noise = np.random.default_rng(2)
    return {n: v + 0.3 * noise.standard_normal(v.shape) for n, v in start.items()}


def relu(value: Array) -> Array:
    return np.maximum(value, 0)


# One logit S[i, j] of head h for the sequence x [L,d], as the definitions have it.
LOGITS: dict[str, Callable[[Tensors, Array, int, int, int], Any]] = {
    "V": lambda p, x, h, i, j: (
        (x[i] @ p["dot_product.query"][:, h]) @ (x[j] @ p["dot_product.key"][:, h]) / math.sqrt(k)
    ),
    "R": lambda p, x, h, i, j: p["random.logits"][h, i, j],
    "Fix": lambda p, x, h, i, j: p["fixed_random.logits"][h, i, j],
    "FR": lambda p, x, h, i, j: (
        p["factorized_random.left"][h, i] @ p["factorized_random.right"][h, j]
    ),
    "D": lambda p, x, h, i, j: relu(x[i] @ p["dense.hidden"][:, h]) @ p["dense.logits"][h, :, j],
    "FD": lambda p, x, h, i, j: (  # N = 6: a = 2, b = 3
        (relu(x[i] @ p["factorized_dense.hidden"][:, h]) @ p["factorized_dense.a"][h, :, j // 3])
        * (relu(x[i] @ p["factorized_dense.hidden"][:, h]) @ p["factorized_dense.b"][h, :, j % 3])
    ),
    "glu": lambda p, x, h, i, j: (
        (x[i, h * k : h * k + k] @ p["glu.logits"][h, :, j])
        / (1 + math.exp(-(x[i, h * k : h * k + k] @ p["glu.gate"][h, :, j])))
    ),
}


def attention_in_loops(
    names: list[str], p: Tensors, x: Array, mask: Array | None, causal: bool, weights: Array
) -> Array:
    """Synthetic attention for one sequence x [L,d], weights [n,H]."""
    y = np.zeros((L, d))
    for h in range(H):
        for i in range(L):
            keys = [
                j for j in range(L) if (not causal or j <= i) and (mask is None or bool(mask[j]))
            ]
            if not keys:
                continue
            row = [
                sum(weights[n, h] * LOGITS[name](p, x, h, i, j) for n, name in enumerate(names))
                for j in keys
            ]
            exponentials = [math.exp(s) for s in row]
            for j, exponential in zip(keys, exponentials, strict=True):
                value = x[j] @ p["value"][:, h]
                y[i] += exponential / sum(exponentials) * (value @ p["output"][h])
    return y


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    "variant", [*LOGITS, "R+V", "FR+D+V", "(R+V)(mixing=layer)", "(Fix+FD)(mixing=sum)"]
)
def test_attention_is_its_definition(variant: str, padded: bool, causal: bool) -> None:
    mixer = parse(variant)
    p = parameters_of(variant)
    names = [c.label or c.name for c in mixer.components]  # type: ignore[attr-defined]
    weights = np.ones((len(names), H))
    if "alpha" in p:
        alpha = np.exp(p["alpha"].reshape(len(names), -1))
        weights = weights * alpha / alpha.sum(axis=0)
        np.testing.assert_allclose(weights.sum(axis=0), 1)
    mask = PADDED if padded else None
    got = mixer.reference(p, X, SIZES, padding_mask=mask, causal=causal)
    for b in range(B):
        own = None if mask is None else mask[b]
        want = attention_in_loops(names, p, X[b], own, causal, weights)
        np.testing.assert_allclose(got[b], want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("name", ["light_conv", "dynamic_conv"])
def test_a_gated_convolution_is_its_definition(name: str, width: int, causal: bool) -> None:
    mixer = parse(f"{name}(width={width})")
    p = parameters_of(format_mixer(mixer))
    got = mixer.reference(p, X, SIZES, padding_mask=PADDED, causal=causal)
    before = width - 1 if causal else width // 2
    for b in range(B):
        first, gate = np.split(X[b] @ p["input"], 2, axis=-1)
        u = first / (1 + np.exp(-gate)) * PADDED[b][:, None]
        y = np.zeros((L, d))
        for t in range(L):
            for c in range(d):
                h = c // k
                kernel = p["kernel"][h] if name == "light_conv" else u[t] @ p["generator"][:, h]
                weights = np.exp(kernel) / np.exp(kernel).sum()  # over the full width
                for j in range(width):
                    if 0 <= t - before + j < L:
                        y[t, c] += weights[j] * u[t - before + j, c]
        np.testing.assert_allclose(got[b], y @ p["output"], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_convolution_to_logits_is_its_definition(width: int, causal: bool) -> None:
    p = parameters_of(f"conv(width={width})")
    (component,) = parse(f"conv(width={width})").components  # type: ignore[attr-defined]
    got = component.reference(p, X, SIZES, padding_mask=PADDED, causal=causal)
    before = width - 1 if causal else width // 2
    want = np.zeros((B, H, L, L))
    for b, h, i, j, w in np.ndindex(B, H, L, L, width):
        t = i - before + w
        if 0 <= t < L and PADDED[b, t]:
            want[b, h, i, j] += X[b, t] @ p["conv.kernel"][w, :, h, j]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_linformer_is_its_definition() -> None:
    for variant in ("linformer(rank=3)", "linformer(rank=3, sharing=kv)"):
        p = parameters_of(variant)
        got = parse(variant).reference(p, X, SIZES, padding_mask=PADDED)
        compress_key = p["key_projection"][:L]
        compress_value = p.get("value_projection", p["key_projection"])[:L]
        for b in range(B):
            y = np.zeros((L, d))
            for h in range(H):
                keys = compress_key.T @ (X[b] @ p["key"][:, h] * PADDED[b][:, None])
                values = compress_value.T @ (X[b] @ p["value"][:, h] * PADDED[b][:, None])
                logits = X[b] @ p["query"][:, h] @ keys.T / math.sqrt(k)
                weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
                y += weights @ values @ p["output"][h]
            np.testing.assert_allclose(got[b], y, rtol=1e-12, atol=1e-13)


def test_with_untrained_weights_a_mixture_is_the_mean_of_logits() -> None:
    p = parameters_of("R+V")
    p["alpha"] = np.zeros_like(p["alpha"])
    halved = {name: value for name, value in p.items() if name != "alpha"}
    for name in ("random.logits", "dot_product.query"):
        halved[name] = p[name] / 2
    np.testing.assert_allclose(
        parse("R+V").reference(p, X, SIZES),
        parse("(R+V)(mixing=sum)").reference(halved, X, SIZES),
        rtol=1e-12,
    )


def test_a_tied_query_is_the_untied_one_with_the_same_values() -> None:
    p = parameters_of("D(tie_query=true)+V")
    untied = {**p, "dense.hidden": p["dot_product.query"]}
    np.testing.assert_array_equal(
        parse("D(tie_query=true)+V").reference(p, X, SIZES),
        parse("D+V").reference(untied, X, SIZES),
    )


def sizes_for(variant: str) -> Sizes:
    return Sizes.of(d_model=d, heads=H, max_len=12 if "a=2, b=6" in variant else N)


def run(variant: str, x: Array, **masks: Any) -> Array:
    sizes = sizes_for(variant)
    mixer = parse(variant)
    mixer.check(sizes, causal=bool(masks.get("causal")))
    return mixer.reference(parameters_of(variant, sizes), x, sizes, **masks)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_later_token_changes_no_earlier_output(variant: str) -> None:
    if variant.startswith("linformer"):
        with pytest.raises(synthbench.SynthbenchError, match="linformer cannot be causal"):
            run(variant, X, causal=True)
        return
    whole = run(variant, X, causal=True)
    for position in range(1, L):
        changed = X.copy()
        changed[:, position:] = 1e4
        seen = run(variant, changed, causal=True)
        np.testing.assert_allclose(seen[:, :position], whole[:, :position], rtol=1e-12, atol=1e-12)
        assert not np.allclose(seen[:, position], whole[:, position])


@pytest.mark.parametrize("variant", VARIANTS)
def test_garbage_in_padding_changes_no_real_output(variant: str) -> None:
    garbage = np.where(PADDED[..., None], X, 1e4)
    clean, dirty = (run(variant, x, padding_mask=PADDED)[PADDED] for x in (X, garbage))
    np.testing.assert_allclose(dirty, clean, rtol=1e-12, atol=1e-12)
    # and the mask is not idle: unmasked, the garbage shows
    assert not np.allclose(run(variant, garbage)[PADDED], clean)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_query_without_a_key_gives_zeros(variant: str) -> None:
    """A row of padding alone: zeros where there is no bias, never NaN."""
    nothing = np.array([[True] * L, [False] * L])
    y = run(variant, X, padding_mask=nothing)
    assert np.isfinite(y).all()
    if "bias" not in variant and "mesh" not in variant:
        assert not y[1].any()
    if not variant.startswith("linformer") and hasattr(parse(variant), "components"):
        first_hidden = np.array([[False] + [True] * (L - 1)] * B)
        y = run(variant, X, padding_mask=first_hidden, causal=True)
        assert np.isfinite(y).all()
        output_bias = parameters_of(variant, sizes_for(variant)).get("output_bias", np.zeros(d))
        np.testing.assert_array_equal(y[:, 0], np.broadcast_to(output_bias, (B, d)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_is_its_sequences_one_by_one(variant: str) -> None:
    together = run(variant, X, padding_mask=PADDED)
    for b in range(B):
        alone = run(variant, X[b : b + 1], padding_mask=PADDED[b : b + 1])
        np.testing.assert_allclose(together[b : b + 1], alone, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reference_keeps_the_precision_it_is_given(variant: str) -> None:
    sizes = sizes_for(variant)
    p = {n: v.astype(np.float32) for n, v in parameters_of(variant, sizes).items()}
    y = parse(variant).reference(p, X.astype(np.float32), sizes, padding_mask=PADDED)
    assert y.dtype == np.float32
    assert run(variant, X).dtype == np.float64
