"""The models of synthbench/models/model.py in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import Array

from synthbench.backends.forms import choose_form, resolve_form
from synthbench.backends.jax.layers import (
    Cross,
    FeedForward,
    Norm,
    embed,
    mean,
    position_bias,
)
from synthbench.backends.jax.mixers.catalog import MIXERS
from synthbench.backends.jax.module import DTYPES, Declared, MixerModule, as_layer, load
from synthbench.backends.kernel_choice import LookUp
from synthbench.errors import UnsupportedError
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array as NDArray
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.plugin_component import with_functions
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model, Stack
from synthbench.models.outputs import require_output


def output_check(mixer: Mixer) -> Callable[[Any, tuple[int, ...], Any], None]:
    """A function of output, shape and type; it runs only while a program is traced."""
    return partial(require_output, mixer, "jax", kind=Array)


class Bare(nnx.Module):
    """X [B,L,d] -> Y [B,L,d], the mixer alone."""

    def __init__(self, model: Model, form: str, dtype: Any) -> None:
        self.causal = bool(model.causal)
        self.mixer = build_mixer(model.mixer, model.sizes, form, dtype)
        self.require_output = output_check(model.mixer)

    def __call__(self, x: Array, padding_mask: Array | None = None) -> Array:
        y: Array = self.mixer(x, padding_mask, self.causal)
        self.require_output(y, x.shape, x.dtype)
        return y


class Block(nnx.Module):
    """x + mixer(norm(x)), then cross attention if there is a source, then the feed-forward."""

    def __init__(self, model: Model, stack: Stack, form: str, dtype: Any) -> None:
        self.mixer_norm = Norm(model, dtype)
        self.mixer = build_mixer(model.mixer, model.sizes, form, dtype)
        self.require_output = output_check(model.mixer)
        if stack.cross:
            self.cross_norm = Norm(model, dtype)
            self.cross = Cross(model.cross, dtype)
        self.feed_forward_norm = Norm(model, dtype)
        self.feed_forward = FeedForward(model, dtype)

    def __call__(
        self,
        x: Array,
        padding_mask: Array | None,
        causal: bool,
        bias: Array | None,
        source: Array | None,
        source_mask: Array | None,
    ) -> Array:
        options = {} if bias is None else {"position_bias": bias}
        y = self.mixer(self.mixer_norm(x), padding_mask, causal, **options)
        self.require_output(y, x.shape, x.dtype)
        x = x + y
        if source is not None:
            x = x + self.cross(self.cross_norm(x), source, source_mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Blocks(Declared):
    """A stack X [B,L,d] -> X [B,L,d] with its final norm; `others` are further parameters."""

    def __init__(
        self,
        model: Model,
        stack: Stack,
        form: str,
        dtype: Any,
        others: Mapping[str, Parameter] = MappingProxyType({}),
    ) -> None:
        super().__init__({**others, **model.bias_parameters()}, dtype)
        self.causal = stack.causal
        self.blocks = nnx.List([Block(model, stack, form, dtype) for _ in range(model.layers)])
        self.final_norm = Norm(model, dtype)

    def run(
        self,
        x: Array,
        padding_mask: Array | None,
        source: Array | None = None,
        source_mask: Array | None = None,
    ) -> Array:
        """The blocks in order, then the final norm."""
        table = self.tensors().get("relative_bias")
        bias = None if table is None else position_bias(table, x.shape[1], self.causal)
        for block in self.blocks:
            x = block(x, padding_mask, self.causal, bias, source, source_mask)
        normal: Array = self.final_norm(x)
        return normal


class OneStack(Blocks):
    """Tokens [B,L] -> logits [B,L,vocabulary] by the embedding, or [B,labels] of a classifier."""

    def __init__(self, model: Model, form: str, dtype: Any) -> None:
        (stack,) = model.stacks
        others = model.embedding_parameters() | model.label_parameters()
        super().__init__(model, stack, form, dtype, others)
        self.position_kind = model.spec.positions

    def __call__(self, tokens: Array, padding_mask: Array | None = None) -> Array:
        p = self.tensors()
        x = self.run(embed(p, tokens, self.position_kind), padding_mask)
        if "labels" in p:
            return mean(x, padding_mask) @ p["labels"] + p["labels_bias"]
        return x @ p["embedding"].T


class TwoStacks(Declared):
    """Source and target tokens [B, L + T] -> logits [B,T,vocabulary], one embedding for both."""

    def __init__(self, model: Model, form: str, dtype: Any) -> None:
        super().__init__(model.embedding_parameters(), dtype)
        self.split = model.split
        self.position_kind = model.spec.positions
        encoder, decoder = model.stacks
        self.encoder = Blocks(model, encoder, form, dtype)
        self.decoder = Blocks(model, decoder, form, dtype)

    def __call__(self, tokens: Array, padding_mask: Array | None = None) -> Array:
        p = self.tensors()
        source, target = (embed(p, part, self.position_kind) for part in self.split(tokens))
        source_mask, target_mask = self.split(padding_mask)
        source = self.encoder.run(source, source_mask)
        target = self.decoder.run(target, target_mask, source, source_mask)
        return target @ p["embedding"].T


def build_model(model: Model, form: str, dtype: Any) -> nnx.Module:
    """A module (inputs, padding_mask) -> outputs, whose parameters have no values yet."""
    model.check()
    kinds: dict[int, type[Any]] = {0: Bare, 1: OneStack, 2: TwoStacks}
    built: nnx.Module = kinds[len(model.stacks)](model, form, dtype)
    return built


def build_mixer(
    mixer: Mixer, sizes: Sizes, form: str, dtype: Any, *, mixed: bool = False
) -> nnx.Module:
    """A module of x, padding_mask, causal -> y, its parameters not yet filled.

    `mixed`: whether x may have another type than the parameters.
    """
    declared = mixer.parameters(sizes)
    if type(mixer).jax is not Mixer.jax:
        built = mixer.jax(sizes)
        if isinstance(built, nnx.Module):
            return built
        function = built
    elif mixer.name in MIXERS:
        if isinstance(mixer, Attention):
            mixer = with_functions(mixer, sizes, "jax")
        function = partial(choose_form(MIXERS[mixer.name], form, mixer.name), mixer)
        if mixed:
            function = partial(_in_one_type, function)
    else:
        raise UnsupportedError(f"{mixer.name} has no jax(); it cannot run in JAX")
    return MixerModule(declared, function, dtype)


def _in_one_type(
    function: Callable[..., Array], p: dict[str, Array], x: Array, *others: Any
) -> Array:
    """In the type that JAX's rules give to a result of all; the fused forms expect a single one."""
    kind = jnp.result_type(x, *p.values())
    return function(
        {name: value.astype(kind) for name, value in p.items()}, x.astype(kind), *others
    )


def build_layer(
    mixer: Mixer,
    sizes: Sizes,
    start: Mapping[str, NDArray],
    form: str,
    dtype: str | None,
    *,
    causal: bool,
    look_up: LookUp,
) -> nnx.Module:
    """A module of x, padding_mask -> y for a user's own model, holding the start values.

    `look_up` gives the kernel for the shapes of a call.

    A `dtype` of None is float32. Raises UnsupportedError for float64 where JAX has it switched off.
    """
    if dtype == "float64" and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise UnsupportedError(
            "dtype float64 is switched off in jax; call jax.config.update('jax_enable_x64', True) "
            "before anything else, or use float32"
        )
    kind = DTYPES[dtype or "float32"]
    module = build_mixer(mixer, sizes, form, kind, mixed=True)
    load(module, mixer.parameters(sizes), start, kind, None)
    return as_layer(module, sizes, causal, look_up)


def form_of(mixer: Mixer, form: str) -> str | None:
    """The form that `build_mixer` builds; None for a plug-in's own jax()."""
    if type(mixer).jax is not Mixer.jax or mixer.name not in MIXERS:
        return None
    return resolve_form(MIXERS[mixer.name], form)


def cross_entropy(
    outputs: Array, targets: Array, padding_mask: Array | None, real: float | None = None
) -> Array:
    """Mean over the targets that are real tokens, in float32 or float64.

    The padding mask may be longer than the targets: its last columns belong to them. `real`: how
    many real tokens the whole batch has, of which these are a share; None: these are all.
    """
    wide = outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))
    losses = optax.softmax_cross_entropy_with_integer_labels(wide, targets)
    if padding_mask is None or targets.ndim == 1:
        return losses.mean() if real is None else losses.sum() / real
    weights = padding_mask[:, -targets.shape[1] :].astype(losses.dtype)
    return (losses * weights).sum() / (weights.sum() if real is None else real)
