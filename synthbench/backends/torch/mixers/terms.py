"""Logits that are not a product of features, by blocks of queries, in PyTorch.

Heads come first, as `blockwise` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from synthbench.backends.torch.mixers import components
from synthbench.backends.torch.mixers.block_logits import Rows, as_they_are
from synthbench.backends.torch.mixers.factorized_dense import factor
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    Times,
    record_kernel,
    split_heads,
    zero_padded,
)
from synthbench.backends.torch.mixers.window_product import convolve_by_windows
from synthbench.mixers.component import Component
from synthbench.mixers.convolutional import Conv
from synthbench.mixers.factorized_dense import FactorizedDense
from synthbench.mixers.plugin_component import PluginComponent
from synthbench.mixers.pointwise import Glu
from synthbench.mixers.random import FixedRandom, Random


def random(component: Random | FixedRandom, inputs: ForwardInputs, weight: Tensor | None) -> Rows:
    """Rows of the logits [H,N,N]; their gradient is written block by block."""
    logits = inputs.p[f"{component.name}.logits"][:, None]
    if weight is None:
        return Rows(as_they_are, (logits,))
    return Rows(lambda keys, rows, w: rows[..., :keys] * w, (logits,), (by_head(weight),))


def factorized_dense(
    component: FactorizedDense, inputs: ForwardInputs, weight: Tensor | None
) -> Rows:
    """A[..,j // b] B[..,j % b] of a block."""
    hidden_a, hidden_b = component.hidden_names
    a = factor(inputs, hidden_a, "factorized_dense.a").swapaxes(0, 1)
    b = factor(inputs, hidden_b, "factorized_dense.b").swapaxes(0, 1)
    return Rows(outer_rows, (a if weight is None else a * by_head(weight), b))


def outer_rows(keys: int, a: Tensor, b: Tensor) -> Tensor:
    """The first `keys` products of a [h,b,l,a] and b [h,b,l,b]."""
    a = a[..., : -(-keys // b.shape[-1])]
    return (a[..., :, None] * b[..., None, :]).flatten(-2)[..., :keys]


def glu(component: Glu, inputs: ForwardInputs, weight: Tensor | None) -> Rows:
    """(Xh logits) * sigmoid(Xh gate) of a block."""
    p, L = inputs.p, inputs.x.shape[1]
    split = split_heads(inputs.x, p["glu.logits"].shape[0]).permute(2, 0, 1, 3)
    whole = [p[f"glu.{name}"][:, None, :, :L] for name in ("logits", "gate")]
    if "glu.logits_bias" in p:
        whole += [p[f"glu.{name}_bias"][:, None, None, :L] for name in ("logits", "gate")]
    if weight is not None:
        whole[::2] = [each * by_head(weight) for each in whole[::2]]
    return Rows(partial(glu_rows, inputs.times), (split,), tuple(whole))


def glu_rows(
    times: Times, keys: int, x: Tensor, logits: Tensor, gate: Tensor, *biases: Tensor
) -> Tensor:
    """x [h,b,l,k] through both maps [h,1,k,m]."""
    made, opened = (fold(x, each[..., :keys], times) for each in (logits, gate))
    if biases:
        made, opened = made + biases[0][..., :keys], opened + biases[1][..., :keys]
    return made * torch.sigmoid(opened)


def conv(component: Conv, inputs: ForwardInputs, weight: Tensor | None) -> Rows:
    """All logits at once, the windows of X times the kernel of each head.

    To compute them again in the backward pass would cost more than it saves.
    """
    p, x = inputs.p, zero_padded(inputs.x, inputs.padding_mask)
    L = x.shape[1]
    kernel, bias = p["conv.kernel"][..., :L], p.get("conv.kernel_bias")
    rows = convolve_by_windows(x, kernel.flatten(2), inputs)
    made = rows.unflatten(-1, (-1, L)).permute(2, 0, 1, 3)
    if bias is not None:
        made = made + bias[:, None, None, :L]
    if weight is not None:
        made = made * by_head(weight)
    return Rows(as_they_are, (made,))


def whole(component: Component, inputs: ForwardInputs, weight: Tensor | None) -> Rows:
    """Logits computed all at once [B,H,L,L], where recomputing them costs more than it saves."""
    logits = components.logits(component, inputs)
    return logits_term(logits if weight is None else logits * weight[:, None, None])


def plugin_term(component: PluginComponent, inputs: ForwardInputs, weight: Tensor | None) -> Rows:
    """Rows of a plug-in component by block, or all of its logits at once."""
    if component.rows is None:
        record_kernel(component.whole_kernel)
        return whole(component, inputs, weight)
    own = component.own(inputs.p)
    names = tuple(own)
    L, H, device = inputs.x.shape[1], component.heads, inputs.x.device
    # Axes of size 1 are never cut: parameters stay whole, x is cut to a block's examples.
    tensors = [t[None, None] for t in own.values()]
    heads = torch.arange(H, device=device)[:, None, None, None]
    queries = torch.arange(L, device=device)[None, None, :, None]
    weights = () if weight is None else (by_head(weight),)

    def rows(keys: int, queries: Tensor, x: Tensor, heads: Tensor, *others: Tensor) -> Tensor:
        p = {name: t[0, 0] for name, t in zip(names, others[: len(names)], strict=True)}
        made = component.make_rows(p, x[0], heads[:, 0, 0, 0], queries[0, 0, :, 0])
        made = made.to(x.dtype).swapaxes(0, 1)[..., :keys]
        return made * others[-1] if weights else made

    return Rows(rows, (queries,), (inputs.x[None], heads, *tensors, *weights))


def logits_term(logits: Tensor) -> Rows:
    """Logits [B or 1,H,L,L] that exist already."""
    return Rows(as_they_are, (logits.swapaxes(0, 1),))


def fold(x: Tensor, weight: Tensor, times: Times) -> Tensor:
    """x [h,b,l,k] times weight [h,1,k,m], one product per head."""
    h, b, rows, k = x.shape
    return times(x.reshape(h, b * rows, k), weight[:, 0]).reshape(h, b, rows, -1)


def by_head(weight: Tensor) -> Tensor:
    """A component's weight [H or 1] with four axes."""
    return weight[:, None, None, None]


TERMS: dict[str, Callable[[Any, ForwardInputs, Tensor | None], Rows]] = {
    "random": random,
    "fixed_random": random,
    "factorized_dense": factorized_dense,
    "conv": conv,
    "glu": glu,
}


def term_of(component: Component, inputs: ForwardInputs, weight: Tensor | None) -> Rows:
    """The rows of one component, multiplied by its weight [H or 1] in a mixture."""
    if isinstance(component, PluginComponent):
        return plugin_term(component, inputs, weight)
    return TERMS[component.name](component, inputs, weight)
