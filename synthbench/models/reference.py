"""The models in NumPy; what they are is in synthbench/models/model.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthbench.mixers.base import Array, Tensors
from synthbench.models.layers import below, feed_forward, norm
from synthbench.models.outputs import require_output
from synthbench.models.positions import position_bias, sinusoids

if TYPE_CHECKING:
    from synthbench.models.model import Model, Stack


def weights(
    model: Model, p: Tensors, inputs: Array, padding_mask: Array | None = None
) -> dict[str, Array]:
    """What each layer's mixer weighs (`Mixer.weights`): "encoder 0", "1", "mixer" -> weights.

    Raises UnsupportedError for a mixer that weighs nothing.
    """
    watched: dict[str, Array] = {}
    hidden(model, p, inputs, padding_mask, watched)
    return watched


def reference(model: Model, p: Tensors, inputs: Array, padding_mask: Array | None) -> Array:
    """See `Model.reference`."""
    x, mask = hidden(model, p, inputs, padding_mask)
    if not model.is_stack:
        return x
    if model.kind == "classifier":
        y: Array = mean(x, mask) @ p["labels"] + p["labels_bias"]
        return y
    return x @ p["embedding"].T


def hidden(
    model: Model,
    p: Tensors,
    inputs: Array,
    padding_mask: Array | None,
    watched: dict[str, Array] | None = None,
) -> tuple[Array, Array | None]:
    """X [B,L,d] of the last stack with its mask, before the logits; Y of a bare mixer.

    The weights of each layer are put into `watched`.
    """
    if not model.is_stack:
        own, causal = below("mixer", p), bool(model.causal)
        return mixed(model, own, inputs, padding_mask, causal, "mixer", watched), padding_mask
    x = mask = source = source_mask = None
    tokens_and_masks = zip(model.split(inputs), model.split(padding_mask), strict=True)
    for stack, (tokens, mask) in zip(model.stacks, tokens_and_masks, strict=True):
        own = below(stack.prefix.removesuffix("."), p) if stack.prefix else dict(p)
        x = embedded(model, p, tokens)
        x = run(model, stack, own, x, mask, source, source_mask, watched)
        source, source_mask = x, mask
    assert x is not None
    return x, mask


def embedded(model: Model, p: Tensors, tokens: Array) -> Array:
    """Token ids [B,L] -> X [B,L,d], positions added where they are added to tokens."""
    x: Array = p["embedding"][tokens]
    L = tokens.shape[1]
    if model.spec.positions == "learned":
        return x + p["positions"][:L]
    if model.spec.positions == "sinusoidal":
        return x + sinusoids(L, model.sizes.d_model).astype(x.dtype)
    return x


def run(
    model: Model,
    stack: Stack,
    p: Tensors,
    x: Array,
    mask: Array | None,
    source: Array | None,
    source_mask: Array | None,
    watched: dict[str, Array] | None,
) -> Array:
    """One stack: its blocks, and the final norm."""
    kind = model.spec.norm
    bias = {}
    if model.has_position_bias:
        bias = {"position_bias": position_bias(p["relative_bias"], x.shape[1], stack.causal)}
    for layer in range(model.layers):
        block = below(f"blocks.{layer}", p)
        own = below("mixer", block) | bias
        normal = norm(x, block, "mixer_norm", kind)
        name = f"{stack.prefix.removesuffix('.')} {layer}".strip()
        x = x + mixed(model, own, normal, mask, stack.causal, name, watched)
        if stack.cross:
            assert source is not None
            query = norm(x, block, "cross_norm", kind)
            x = x + model.cross.reference(below("cross", block), query, source, source_mask)
        x = x + feed_forward(
            norm(x, block, "feed_forward_norm", kind), below("feed_forward", block)
        )
    return norm(x, p, "final_norm", kind)


def mixed(
    model: Model,
    p: Tensors,
    x: Array,
    mask: Array | None,
    causal: bool,
    name: str,
    watched: dict[str, Array] | None,
) -> Array:
    """The mixer's Y [B,L,d]; what it weighs is put into `watched` under `name`."""
    if watched is not None:
        own = model.mixer.weights(p, x, model.sizes, padding_mask=mask, causal=causal)
        watched[name] = own
    y = model.mixer.reference(p, x, model.sizes, padding_mask=mask, causal=causal)
    require_output(model.mixer, "NumPy", y, x.shape)
    return y


def mean(x: Array, mask: Array | None) -> Array:
    """Mean of X [B,L,d] over the real tokens; zeros if there is none."""
    if mask is None:
        average: Array = x.mean(axis=1)
        return average
    weights = mask.astype(x.dtype)[..., None]
    return np.asarray((x * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1))
