"""Attention weights that depend on parameters alone, kept between calls without gradients."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from synthbench.backends.torch.mixers import components
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    attention_mask,
    masked_softmax,
    mix,
)
from synthbench.mixers.attention import Attention


@dataclass(frozen=True)
class _Kept:
    of: tuple[Any, ...]  # what the weights were made of: tensors as they stood, length, causal
    weights: Tensor


# The first component's logits -> the weights; gone with them.
_kept: MutableMapping[Tensor, _Kept] = WeakIdKeyDictionary()


def caches_weights(mixer: Attention, inputs: ForwardInputs) -> bool:
    """Whether weights are kept in this call; where gradients are needed they are let go."""
    if not {c.name for c in mixer.components} <= {"random", "fixed_random"}:
        return False
    if torch.compiler.is_compiling() or "position_bias" in inputs.p:
        return False
    tensors = _made_of(mixer, inputs)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        _kept.pop(tensors[0], None)
        return False
    return not any(t.is_inference() for t in tensors)  # their changes leave no trace


def cached_weights(mixer: Attention, inputs: ForwardInputs) -> Tensor:
    """softmax(S) [H,1,L,L], made anew only when a parameter, the length or causality changed."""
    tensors = _made_of(mixer, inputs)
    stood = tuple((id(t), t._version) for t in tensors)
    of = (stood, inputs.x.shape[1], inputs.causal, mixer.mixing)
    kept = _kept.get(tensors[0])
    if kept is None or kept.of != of:
        _kept.pop(tensors[0], None)
        logits = [components.logits(component, inputs) for component in mixer.components]
        mask = attention_mask(inputs.x, None, inputs.causal)
        weights = masked_softmax(mix(logits, inputs.p.get("alpha")), mask)
        kept = _kept[tensors[0]] = _Kept(of, weights.swapaxes(0, 1))
    return kept.weights


def cached_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the weights kept for these parameters."""
    kept = [_kept[t].weights for t in tensors if t in _kept]
    return sum(w.numel() * w.element_size() for w in kept)


def _made_of(mixer: Attention, inputs: ForwardInputs) -> list[Tensor]:
    named = [inputs.p[f"{c.name}.logits"] for c in mixer.components]
    return [*named, inputs.p["alpha"]] if "alpha" in inputs.p else named
