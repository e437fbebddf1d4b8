"""The models of synthbench/models/model.py in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synthbench.backends.forms import choose_form, resolve_form
from synthbench.backends.kernel_choice import LookUp
from synthbench.backends.torch.layers import (
    Cross,
    Device,
    Dtype,
    FeedForward,
    Norm,
    embed,
    mean,
    position_bias,
)
from synthbench.backends.torch.mixers import blockwise
from synthbench.backends.torch.mixers.catalog import MIXERS
from synthbench.backends.torch.module import DTYPES, Declared, MixerModule, as_layer, load
from synthbench.errors import UnsupportedError
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array as NDArray
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.plugin_component import with_functions
from synthbench.mixers.sizes import Sizes
from synthbench.models.model import Model, Stack


class Bare(nn.Module):
    """X [B,L,d] -> Y [B,L,d], the mixer alone."""

    def __init__(self, model: Model, form: str, dtype: Dtype = None, device: Device = None) -> None:
        super().__init__()
        self.causal = bool(model.causal)
        self.mixer = build_mixer(model.mixer, model.sizes, form, dtype=dtype, device=device)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.mixer(x, padding_mask, self.causal)
        return y


class Block(nn.Module):
    """x + mixer(norm(x)), then cross attention if there is a source, then the feed-forward."""

    def __init__(
        self, model: Model, stack: Stack, form: str, dtype: Dtype = None, device: Device = None
    ) -> None:
        super().__init__()
        self.mixer_norm = Norm(model, dtype, device)
        self.mixer = build_mixer(model.mixer, model.sizes, form, dtype=dtype, device=device)
        if stack.cross:
            self.cross_norm = Norm(model, dtype, device)
            self.cross = Cross(model.cross, dtype, device)
        self.feed_forward_norm = Norm(model, dtype, device)
        self.feed_forward = FeedForward(model, dtype, device)

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None,
        causal: bool,
        bias: Tensor | None,
        source: Tensor | None,
        source_mask: Tensor | None,
    ) -> Tensor:
        options = {} if bias is None else {"position_bias": bias}
        x = x + self.mixer(self.mixer_norm(x), padding_mask, causal, **options)
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
        dtype: Dtype = None,
        device: Device = None,
        others: Mapping[str, Parameter] = MappingProxyType({}),
    ) -> None:
        super().__init__({**others, **model.bias_parameters()}, dtype=dtype, device=device)
        self.causal = stack.causal
        self.blocks = nn.ModuleList(
            Block(model, stack, form, dtype, device) for _ in range(model.layers)
        )
        self.final_norm = Norm(model, dtype, device)

    def run(
        self,
        x: Tensor,
        padding_mask: Tensor | None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
    ) -> Tensor:
        """The blocks in order, then the final norm."""
        table = self.tensors().get("relative_bias")
        bias = None if table is None else position_bias(table, x.shape[1], self.causal)
        for block in self.blocks:
            x = block(x, padding_mask, self.causal, bias, source, source_mask)
        normal: Tensor = self.final_norm(x)
        return normal


class OneStack(Blocks):
    """Tokens [B,L] -> logits [B,L,vocabulary] by the embedding, or [B,labels] of a classifier."""

    def __init__(self, model: Model, form: str, dtype: Dtype = None, device: Device = None) -> None:
        (stack,) = model.stacks
        others = model.embedding_parameters() | model.label_parameters()
        super().__init__(model, stack, form, dtype, device, others)
        self.position_kind = model.spec.positions

    def forward(self, tokens: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        p = self.tensors()
        x = self.run(embed(p, tokens, self.position_kind), padding_mask)
        if "labels" in p:
            return mean(x, padding_mask) @ p["labels"] + p["labels_bias"]
        return x @ p["embedding"].T


class TwoStacks(Declared):
    """Source and target tokens [B, L + T] -> logits [B,T,vocabulary], one embedding for both."""

    def __init__(self, model: Model, form: str, dtype: Dtype = None, device: Device = None) -> None:
        super().__init__(model.embedding_parameters(), dtype=dtype, device=device)
        self.split = model.split
        self.position_kind = model.spec.positions
        encoder, decoder = model.stacks
        self.encoder = Blocks(model, encoder, form, dtype, device)
        self.decoder = Blocks(model, decoder, form, dtype, device)

    def forward(self, tokens: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        p = self.tensors()
        source, target = (embed(p, part, self.position_kind) for part in self.split(tokens))
        source_mask, target_mask = self.split(padding_mask)
        source = self.encoder.run(source, source_mask)
        target = self.decoder.run(target, target_mask, source, source_mask)
        return target @ p["embedding"].T


def build_model(model: Model, form: str, dtype: Dtype = None, device: Device = None) -> nn.Module:
    """A module (inputs, padding_mask) -> outputs, whose parameters have no values yet."""
    model.check()
    kinds: dict[int, type[Any]] = {0: Bare, 1: OneStack, 2: TwoStacks}
    built: nn.Module = kinds[len(model.stacks)](model, form, dtype, device)
    return built


def build_mixer(
    mixer: Mixer, sizes: Sizes, form: str, *, autocast: bool = False, **factory: Any
) -> nn.Module:
    """A module of x, padding_mask, causal -> y, its parameters not yet filled.

    `autocast`: whether it may be called under `torch.autocast`, where it is the reference form.
    """
    declared = mixer.parameters(sizes)
    if type(mixer).torch is not Mixer.torch:
        built = mixer.torch(sizes)
        if isinstance(built, nn.Module):
            return built.to(**factory)
        function = built
    elif mixer.name in MIXERS:
        if isinstance(mixer, Attention):
            mixer = with_functions(mixer, sizes, "torch")
        forms = MIXERS[mixer.name]
        function = partial(choose_form(forms, form, mixer.name), mixer)
        if autocast and resolve_form(forms, form) == "fused":
            function = partial(_without_autocast, function, partial(forms.reference, mixer))
    else:
        raise UnsupportedError(f"{mixer.name} has no torch(); it cannot run in PyTorch")
    return MixerModule(declared, function, **factory)


def _without_autocast(
    fused: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    p: dict[str, Tensor],
    x: Tensor,
    *others: Any,
    **options: Any,
) -> Tensor:
    """The fused form; under autocast, whose types its own backward passes do not see, the other."""
    form = reference if torch.is_autocast_enabled(x.device.type) else fused
    return form(p, x, *others, **options)


def build_layer(
    mixer: Mixer,
    sizes: Sizes,
    start: Mapping[str, NDArray],
    form: str,
    dtype: str | None,
    device: str | None,
    *,
    causal: bool,
    look_up: LookUp,
) -> nn.Module:
    """A module of x, padding_mask -> y for a user's own model, holding the start values.

    `look_up` gives the kernel for the shapes of a call.

    `dtype` and `device` of None are torch's defaults.
    """
    blockwise.run_eagerly()  # the user may compile it
    kind = torch.get_default_dtype() if dtype is None else DTYPES[dtype]
    place = torch.get_default_device() if device is None else torch.device(device)
    module = build_mixer(mixer, sizes, form, autocast=True, dtype=kind, device=place)
    load(module, mixer.parameters(sizes), start)
    return as_layer(module, sizes, causal, look_up)


def form_of(mixer: Mixer, form: str) -> str | None:
    """The form that `build_mixer` builds; None for a plug-in's own torch()."""
    if type(mixer).torch is not Mixer.torch or mixer.name not in MIXERS:
        return None
    return resolve_form(MIXERS[mixer.name], form)


def cross_entropy(
    outputs: Tensor, targets: Tensor, padding_mask: Tensor | None, real: float | None = None
) -> Tensor:
    """Mean over the targets that are real tokens, in float32 or float64.

    The padding mask may be longer than the targets: its last columns belong to them. `real`: how
    many real tokens the whole batch has, of which these are a share; None: these are all.
    """
    wide = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    losses = F.cross_entropy(wide.flatten(0, -2), targets.flatten(), reduction="none")
    if padding_mask is None or targets.ndim == 1:
        return losses.mean() if real is None else losses.sum() / real
    weights = padding_mask[:, -targets.shape[1] :].flatten().to(losses.dtype)
    return (losses * weights).sum() / (weights.sum() if real is None else real)
