"""Attention weights that depend only on parameters, kept between calls without gradients."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

from synthbench.backends.torch.mixers import components
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    attention_mask,
    masked_softmax,
    mix,
)
from synthbench.backends.torch.private_api import change_count, storage_reference
from synthbench.errors import UnsupportedError
from synthbench.mixers.attention import Attention

# More weights are computed in every call, block by block: they would take as much memory as the
# parameters themselves. These are 8 heads at a length of 8192, and 2 GB in float32.
MOST_WEIGHTS = 2**29


@dataclass(frozen=True)
class _Entry:
    computed_from: tuple[Any, ...]  # states of the tensors, length, causal, mixing
    weights: Tensor
    sources: Sequence[ref[Tensor]]


# The first component's logits -> the weights, which are freed together with them.
_cache: MutableMapping[Tensor, _Entry] = WeakIdKeyDictionary()


def caches_weights(mixer: Attention, inputs: ForwardInputs) -> bool:
    """Whether this call uses the cache; if it needs gradients, it empties the cache."""
    if not {c.name for c in mixer.components} <= {"random", "fixed_random"}:
        return False
    if torch.compiler.is_compiling() or "position_bias" in inputs.p:
        return False
    tensors = _sources(mixer, inputs)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        _cache.pop(tensors[0], None)
        return False
    heads, length = tensors[0].shape[0], inputs.x.shape[1]
    return heads * length**2 <= MOST_WEIGHTS and all(_state(t) is not None for t in tensors)


def cached_weights(mixer: Attention, inputs: ForwardInputs) -> Tensor:
    """softmax(S) [H,1,L,L], recomputed only if a parameter, the length or causality changed."""
    tensors = _sources(mixer, inputs)
    states = tuple(_state(t) for t in tensors)
    computed_from = (states, inputs.x.shape[1], inputs.causal, mixer.mixing)
    entry = _cache.get(tensors[0])
    if entry is None or entry.computed_from != computed_from:
        _cache.pop(tensors[0], None)
        # Whatever the mode of this call is, a later one may need the weights for gradients.
        with torch.inference_mode(False), torch.no_grad():
            logits = [components.logits(component, inputs) for component in mixer.components]
            mask = attention_mask(inputs.x, None, inputs.causal)
            weights = masked_softmax(mix(logits, inputs.p.get("alpha")), mask).swapaxes(0, 1)
        entry = _cache[tensors[0]] = _Entry(computed_from, weights, [*map(ref, tensors)])
        _watch_optimizers()
    return entry.weights


@cache
def _watch_optimizers() -> None:
    """From now on, forget what an optimizer changes.

    Those that are fused (`Adam(..., fused=True)`) change parameters without counting it.
    """
    register_optimizer_step_post_hook(_forget_changed)


def _forget_changed(optimizer: Optimizer, *_: Any) -> None:
    if torch.compiler.is_compiling() or not _cache:
        return
    changed = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for first, entry in list(_cache.items()):
        if any(id(source()) in changed for source in entry.sources):
            _cache.pop(first, None)


def cached_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the weights that are cached for these parameters."""
    weights = [_cache[t].weights for t in tensors if t in _cache]
    return sum(w.numel() * w.element_size() for w in weights)


def forget_weights(tensors: Iterable[Tensor]) -> None:
    """Free the weights that are cached for these parameters."""
    for tensor in tensors:
        _cache.pop(tensor, None)


def _state(tensor: Tensor) -> tuple[Any, ...] | None:
    """What changes with a tensor's values; None if PyTorch does not record their changes.

    The storage, because `parameter.data = ...` is no change of the parameter in place; as a weak
    reference, which keeps its address from being given to another storage.
    """
    if tensor.is_inference() or change_count(tensor) is None:
        return None
    try:
        storage = storage_reference(tensor.untyped_storage())
    except UnsupportedError:
        return None
    return storage, tensor.storage_offset(), tensor.stride(), tensor.shape, change_count(tensor)


def _sources(mixer: Attention, inputs: ForwardInputs) -> list[Tensor]:
    logits = [inputs.p[f"{c.name}.logits"] for c in mixer.components]
    return [*logits, inputs.p["alpha"]] if "alpha" in inputs.p else logits
