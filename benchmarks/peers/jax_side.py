"""The peers in JAX: flax's layer and textbook code with our weights, as a step like ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax import Array

from benchmarks.peers import textbook_jax
from benchmarks.peers.pairs import TEXTBOOK, Pair
from synthbench.backends.base import Batch, Setting
from synthbench.backends.jax.module import DTYPES
from synthbench.backends.jax.placement import find_device
from synthbench.backends.jax.precision import full_precision
from synthbench.backends.jax.step import JaxStep, to_device
from synthbench.mixers import base
from synthbench.models.model import Model

Weights = Mapping[str, Array]


class Textbook(nnx.Module):
    """A textbook function with its weights, of which the constants are not trained."""

    def __init__(
        self, function: textbook_jax.Forward, p: Weights, constants: Collection[str]
    ) -> None:
        self.function = function
        self.weights = nnx.Dict(
            {
                name: nnx.Variable(value) if name in constants else nnx.Param(value)
                for name, value in p.items()
            }
        )

    def __call__(self, x: Array, padding_mask: None = None) -> Array:
        return self.function({name: value[...] for name, value in self.weights.items()}, x)


class Attention(nnx.Module):
    """flax.nnx.MultiHeadAttention on its inputs alone."""

    def __init__(self, p: Weights, heads: int) -> None:
        d = p["value"].shape[0]
        layer: Any = nnx.MultiHeadAttention(
            heads, d, use_bias=False, decode=False, rngs=nnx.Rngs(0)
        )
        layer.query.kernel.set_value(p["dot_product.query"])
        layer.key.kernel.set_value(p["dot_product.key"])
        layer.value.kernel.set_value(p["value"])
        layer.out.kernel.set_value(p["output"])
        self.layer = layer

    def __call__(self, x: Array, padding_mask: None = None) -> Array:
        y: Array = self.layer(x)
        return y


def build(
    pair: Pair,
    model: Model,
    start: Mapping[str, base.Array],
    setting: Setting,
    mode: str,
    batch: Batch,
) -> JaxStep:
    """A step of the peer on the same batch, from the same weights."""
    dtype, device = DTYPES[setting.dtype], find_device(setting.device)
    p = {
        # Copies, because each side trains and donates the arrays of its weights.
        name.removeprefix("mixer."): jax.device_put(np.array(value, dtype), device)
        for name, value in start.items()
    }
    with full_precision(setting.dtype):
        declared = model.mixer.parameters(model.sizes).items()
        constants = [name for name, parameter in declared if not parameter.trainable]
        module = layer_of(pair, p, model.sizes.heads, constants)
        return JaxStep(module, mode, setting, *to_device(batch, setting))


def layer_of(pair: Pair, p: Weights, heads: int, constants: Collection[str]) -> nnx.Module:
    """The peer of a pair with these weights."""
    if pair.peer == TEXTBOOK:
        return Textbook(textbook_jax.layer(pair.variant), p, constants)
    return Attention(p, heads)
