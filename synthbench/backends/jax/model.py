"""The models of synthbench/models/model.py in JAX."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array, lax

from synthbench.backends.base import choose_form, resolve_form
from synthbench.backends.jax.mixers.catalog import MIXERS
from synthbench.backends.jax.module import Declared, MixerModule
from synthbench.errors import UnsupportedError
from synthbench.mixers.base import Mixer, Sizes
from synthbench.models.model import NORM_EPSILON, Model, norm_parameters


class Bare(nnx.Module):
    """X [B,L,d] -> Y [B,L,d], the mixer alone."""

    def __init__(self, model: Model, form: str, dtype: Any) -> None:
        self.causal = bool(model.causal)
        self.mixer = build_mixer(model.mixer, model.sizes, form, dtype)

    def __call__(self, x: Array, padding_mask: Array | None = None) -> Array:
        y: Array = self.mixer(x, padding_mask, self.causal)
        return y


class Norm(Declared):
    """Layer norm over the channels."""

    def __init__(self, d: int, dtype: Any) -> None:
        super().__init__(norm_parameters(d), dtype)

    def __call__(self, x: Array) -> Array:
        p = self.tensors()
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        centred = wide - wide.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        normal = (centred * lax.rsqrt(variance + NORM_EPSILON)).astype(x.dtype)
        return normal * p["scale"] + p["bias"]


class FeedForward(Declared):
    """relu(X up + up_bias) down + down_bias."""

    def __init__(self, model: Model, dtype: Any) -> None:
        super().__init__(model.feed_forward_parameters(), dtype)

    def __call__(self, x: Array) -> Array:
        p = self.tensors()
        hidden = jax.nn.relu(x @ p["up"] + p["up_bias"])
        return hidden @ p["down"] + p["down_bias"]


class Block(nnx.Module):
    """x + mixer(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, model: Model, form: str, dtype: Any) -> None:
        d = model.sizes.d_model
        self.mixer_norm = Norm(d, dtype)
        self.mixer = build_mixer(model.mixer, model.sizes, form, dtype)
        self.feed_forward_norm = Norm(d, dtype)
        self.feed_forward = FeedForward(model, dtype)

    def __call__(self, x: Array, padding_mask: Array | None, causal: bool) -> Array:
        x = x + self.mixer(self.mixer_norm(x), padding_mask, causal)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Stack(Declared):
    """Tokens [B,L] -> logits [B,L,vocabulary], tied to the embedding."""

    def __init__(self, model: Model, form: str, dtype: Any) -> None:
        super().__init__(model.embedding_parameters(), dtype)
        self.causal = bool(model.causal)
        self.blocks = nnx.List([Block(model, form, dtype) for _ in range(model.layers)])
        self.final_norm = Norm(model.sizes.d_model, dtype)

    def __call__(self, tokens: Array, padding_mask: Array | None = None) -> Array:
        p = self.tensors()
        x = p["embedding"][tokens] + p["positions"][: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, padding_mask, self.causal)
        return self.final_norm(x) @ p["embedding"].T


def build_model(model: Model, form: str, dtype: Any) -> nnx.Module:
    """A module of inputs, padding_mask -> outputs, its parameters not yet filled."""
    model.check()
    return (Stack if model.is_stack else Bare)(model, form, dtype)


def build_mixer(mixer: Mixer, sizes: Sizes, form: str, dtype: Any) -> nnx.Module:
    """A module of x, padding_mask, causal -> y, its parameters not yet filled."""
    if type(mixer).jax is not Mixer.jax:
        built = mixer.jax(sizes)
        if isinstance(built, nnx.Module):
            return built
        function = built
    elif mixer.name in MIXERS:
        function = partial(choose_form(MIXERS[mixer.name], form, mixer.name), mixer)
    else:
        raise UnsupportedError(f"{mixer.name} has no jax(); it cannot run in JAX")
    return MixerModule(mixer.parameters(sizes), function, dtype)


def form_of(mixer: Mixer, form: str) -> str | None:
    """The form that `build_mixer` builds; None for a plug-in's own jax()."""
    if type(mixer).jax is not Mixer.jax or mixer.name not in MIXERS:
        return None
    return resolve_form(MIXERS[mixer.name], form)


def cross_entropy(outputs: Array, targets: Array, padding_mask: Array | None) -> Array:
    """Mean over the real tokens, computed in float32 at least."""
    wide = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
    losses = optax.softmax_cross_entropy_with_integer_labels(wide, targets)
    if padding_mask is None:
        return losses.mean()
    weights = padding_mask.astype(losses.dtype)
    return (losses * weights).sum() / weights.sum()
