"""The models of synthbench/models/model.py in PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from synthbench.backends.base import choose_form, resolve_form
from synthbench.backends.torch.mixers.catalog import MIXERS
from synthbench.backends.torch.module import Declared, MixerModule
from synthbench.errors import UnsupportedError
from synthbench.mixers.base import Mixer, Sizes
from synthbench.models.model import NORM_EPSILON, Model, norm_parameters


class Bare(nn.Module):
    """X [B,L,d] -> Y [B,L,d], the mixer alone."""

    def __init__(self, model: Model, form: str, **factory: Any) -> None:
        super().__init__()
        self.causal = bool(model.causal)
        self.mixer = build_mixer(model.mixer, model.sizes, form, **factory)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.mixer(x, padding_mask, self.causal)
        return y


class Norm(Declared):
    """Layer norm over the channels."""

    def __init__(self, d: int, **factory: Any) -> None:
        super().__init__(norm_parameters(d), **factory)

    def forward(self, x: Tensor) -> Tensor:
        p = self.tensors()
        return F.layer_norm(x, x.shape[-1:], p["scale"], p["bias"], NORM_EPSILON)


class FeedForward(Declared):
    """relu(X up + up_bias) down + down_bias."""

    def __init__(self, model: Model, **factory: Any) -> None:
        super().__init__(model.feed_forward_parameters(), **factory)

    def forward(self, x: Tensor) -> Tensor:
        p = self.tensors()
        hidden = torch.relu(x @ p["up"] + p["up_bias"])
        return hidden @ p["down"] + p["down_bias"]


class Block(nn.Module):
    """x + mixer(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, model: Model, form: str, **factory: Any) -> None:
        super().__init__()
        d = model.sizes.d_model
        self.mixer_norm = Norm(d, **factory)
        self.mixer = build_mixer(model.mixer, model.sizes, form, **factory)
        self.feed_forward_norm = Norm(d, **factory)
        self.feed_forward = FeedForward(model, **factory)

    def forward(self, x: Tensor, padding_mask: Tensor | None, causal: bool) -> Tensor:
        x = x + self.mixer(self.mixer_norm(x), padding_mask, causal)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Stack(Declared):
    """Tokens [B,L] -> logits [B,L,vocabulary], tied to the embedding."""

    def __init__(self, model: Model, form: str, **factory: Any) -> None:
        super().__init__(model.embedding_parameters(), **factory)
        self.causal = bool(model.causal)
        self.blocks = nn.ModuleList(Block(model, form, **factory) for _ in range(model.layers))
        self.final_norm = Norm(model.sizes.d_model, **factory)

    def forward(self, tokens: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        p = self.tensors()
        x = p["embedding"][tokens] + p["positions"][: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, padding_mask, self.causal)
        return self.final_norm(x) @ p["embedding"].T


def build_model(model: Model, form: str, **factory: Any) -> nn.Module:
    """A module of inputs, padding_mask -> outputs, its parameters not yet filled."""
    model.check()
    return (Stack if model.is_stack else Bare)(model, form, **factory)


def build_mixer(mixer: Mixer, sizes: Sizes, form: str, **factory: Any) -> nn.Module:
    """A module of x, padding_mask, causal -> y, its parameters not yet filled."""
    if type(mixer).torch is not Mixer.torch:
        built = mixer.torch(sizes)
        if isinstance(built, nn.Module):
            return built.to(**factory)
        function = built
    elif mixer.name in MIXERS:
        function = partial(choose_form(MIXERS[mixer.name], form, mixer.name), mixer)
    else:
        raise UnsupportedError(f"{mixer.name} has no torch(); it cannot run in PyTorch")
    return MixerModule(mixer.parameters(sizes), function, **factory)


def form_of(mixer: Mixer, form: str) -> str | None:
    """The form that `build_mixer` builds; None for a plug-in's own torch()."""
    if type(mixer).torch is not Mixer.torch or mixer.name not in MIXERS:
        return None
    return resolve_form(MIXERS[mixer.name], form)


def cross_entropy(outputs: Tensor, targets: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Mean over the real tokens, computed in float32 at least."""
    wide = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
    losses = F.cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="none")
    if padding_mask is None:
        return losses.mean()
    weights = padding_mask.flatten().to(losses.dtype)
    return (losses * weights).sum() / weights.sum()
