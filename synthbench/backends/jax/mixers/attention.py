"""Synthetic attention in JAX; the equations are in synthbench/mixers/attention.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers import components, fused_attention
from synthbench.backends.jax.mixers.numerics import (
    ForwardInputs,
    add_bias,
    attention_mask,
    masked_softmax,
    mix,
    softmax,
    zero_padded,
)
from synthbench.backends.jax.mixers.past import StepInputs
from synthbench.backends.kernel_choice import choose, is_trained
from synthbench.backends.kernel_record import REFERENCE_KERNEL, record_kernel
from synthbench.kernel import Kernel
from synthbench.mixers.attention import Attention


def reference(
    mixer: Attention,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The equations as written, the weights [B or 1, H, L, L] in memory.

    Heads come before positions, as in the weights: what is made in the other order, XLA transposes.
    """
    inputs = ForwardInputs(p, x, padding_mask, causal)
    mixed = mix([components.logits(each, inputs) for each in mixer.components], p.get("alpha"))
    if "position_bias" in p:  # [1,H,L,L], of the model around the mixer
        mixed = mixed + p["position_bias"]
    weights = masked_softmax(mixed, attention_mask(x, padding_mask, causal))
    value = zero_padded(inputs.project("value"), padding_mask)  # 0 weight x NaN would be NaN
    heads = weights @ value.swapaxes(1, 2)  # [B,H,L,k]
    y = jnp.einsum("bhlk,hkd->bld", heads, p["output"])
    return add_bias(y, p.get("output_bias"))


def fused(
    mixer: Attention,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
    causal: bool,
) -> Array:
    """The same numbers without [L,L] in memory, except R's table; the reference form if faster."""
    trained = is_trained()
    kernel = choose(fused_attention.kernels(mixer, p, x, padding_mask, trained=bool(trained)))
    if kernel.path == REFERENCE_KERNEL:
        record_kernel(REFERENCE_KERNEL)
        return reference(mixer, p, x, padding_mask, causal)
    if trained is None and fused_attention.plain_is_faster(mixer, x.shape[1], trained=True):
        return plain_if_trained(mixer, causal, kernel, p, x, padding_mask)
    return fused_attention.fused(mixer, p, x, padding_mask, causal, kernel)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def plain_if_trained(
    mixer: Attention,
    causal: bool,
    kernel: Kernel,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
) -> Array:
    """Fused; the reference form if gradients are computed, which only the call itself shows."""
    return fused_attention.fused(mixer, p, x, padding_mask, causal, kernel)


def _forward(
    mixer: Attention,
    causal: bool,
    kernel: Kernel,
    p: dict[str, Array],
    x: Array,
    padding_mask: Array | None,
) -> tuple[Array, Any]:
    record_kernel(REFERENCE_KERNEL)
    return jax.vjp(lambda p, x: reference(mixer, p, x, padding_mask, causal), p, x)


def _backward(
    mixer: Attention, causal: bool, kernel: Kernel, pull: Any, dy: Array
) -> tuple[Any, Any, None]:
    return (*pull(dy), None)


plain_if_trained.defvjp(_forward, _backward)


def kept(mixer: Attention, inputs: ForwardInputs) -> dict[str, Array]:
    """What decoding keeps of each position: the values [B,H,L,k], and what each component needs."""
    rows = {"value": inputs.project("value").swapaxes(1, 2)}
    for component in mixer.components:
        rows |= components.kept(component, inputs)
    return rows


def step(mixer: Attention, inputs: StepInputs) -> Array:
    """Y [B,1,d] of one position; X [B,1,d]."""
    mixed = mix([components.row(each, inputs) for each in mixer.components], inputs.p.get("alpha"))
    if "position_bias" in inputs.p:  # [1,H,1,keys], of the model around the mixer
        mixed = mixed + inputs.p["position_bias"]
    weights = softmax(inputs.hide_later(mixed), axis=-1)
    value = inputs.extend("value", inputs.project("value").swapaxes(1, 2))
    y = jnp.einsum("bhlk,hkd->bld", weights @ value, inputs.p["output"])
    return add_bias(y, inputs.p.get("output_bias"))
