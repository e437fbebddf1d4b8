"""Logits as a product of query features and key features, in PyTorch.

Every pair is (query features [B or 1, H, L, f], key features [B or 1, H, L, f]): a weighted sum of
such logits is one pair, its features side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.torch.mixers.block_logits import Features
from synthbench.backends.torch.mixers.convolutional import first_convolution
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    zero_padded,
)
from synthbench.backends.torch.mixers.pointwise import bottleneck_hidden
from synthbench.backends.torch.mixers.window_product import shifts
from synthbench.mixers.component import Component
from synthbench.mixers.convolutional import BottleneckConv, ConvReluConv
from synthbench.mixers.dense import Dense
from synthbench.mixers.dot_product import DotProduct
from synthbench.mixers.factorized_random import FactorizedRandom
from synthbench.mixers.plugin_component import PluginComponent
from synthbench.mixers.pointwise import Bottleneck


def dot_product(component: DotProduct, inputs: ForwardInputs) -> Features:
    """(Q / sqrt(k), K)."""
    query, key = inputs.project("dot_product.query"), inputs.project("dot_product.key")
    key = zero_padded(key, inputs.padding_mask)  # a hidden logit has gradient 0, and 0 x NaN is NaN
    return (query * query.shape[-1] ** -0.5).swapaxes(1, 2), key.swapaxes(1, 2)


def factorized_random(component: FactorizedRandom, inputs: ForwardInputs) -> Features:
    """(left, right), the same for every example."""
    L, p = inputs.x.shape[1], inputs.p
    return p["factorized_random.left"][None, :, :L], p["factorized_random.right"][None, :, :L]


def dense(component: Dense, inputs: ForwardInputs) -> Features:
    """(relu(X hidden), logits^T)."""
    hidden = torch.relu(inputs.project(component.hidden_name)).swapaxes(1, 2)
    return with_map(hidden, inputs.p["dense.logits"], inputs.p.get("dense.logits_bias"))


def bottleneck(component: Bottleneck, inputs: ForwardInputs) -> Features:
    """(relu(relu(X down) up), logits^T)."""
    hidden = bottleneck_hidden(inputs).swapaxes(1, 2)
    return with_map(hidden, inputs.p["bottleneck.logits"], inputs.p.get("bottleneck.logits_bias"))


def bottleneck_conv(component: BottleneckConv, inputs: ForwardInputs) -> Features:
    """(windows of relu(conv1(X)), the second kernel); the windows are those of all heads."""
    name = "bottleneck_conv"
    hidden = first_convolution(name, inputs, by_windows=True)
    w, c, H, _ = inputs.p[f"{name}.second"].shape
    seen = torch.cat(shifts(hidden, w, inputs.causal), 2)  # [B,L,w c]
    kernel = inputs.p[f"{name}.second"].permute(2, 3, 0, 1).reshape(H, -1, w * c).mT
    by_head = seen[:, None].expand(-1, H, -1, -1)
    return with_map(by_head, kernel, inputs.p.get(f"{name}.second_bias"))


def conv_relu_conv(component: ConvReluConv, inputs: ForwardInputs) -> Features:
    """(windows of relu(conv1(X)) inside each head, the second kernel)."""
    second = inputs.p["conv_relu_conv.second"]
    w, H, k, _ = second.shape
    hidden = first_convolution("conv_relu_conv", inputs, by_windows=True)  # [B,L,H,k]
    by_head = [each.permute(2, 0, 1, 3) for each in shifts(hidden, w, inputs.causal)]
    seen = torch.cat(by_head, -1).swapaxes(0, 1)  # [B,H,L,w k]; heads first, as blocks have them
    kernel = second.permute(1, 3, 0, 2).reshape(H, -1, w * k).mT
    return with_map(seen, kernel, inputs.p.get("conv_relu_conv.second_bias"))


def with_map(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Features:
    """Hidden [B,H,L,k] with its map to logits [H or none,k,N] and bias [H or none,N], cut to L."""
    B, H, L, _ = hidden.shape
    key = weight[..., :L].mT.expand(H, -1, -1)[None]
    if bias is None:
        return hidden, key.contiguous()
    bias = bias[..., :L, None].expand(1, H, -1, -1)
    return torch.cat([hidden, hidden.new_ones(B, H, L, 1)], -1), torch.cat([key, bias], -1)


def plugin_features(component: PluginComponent, inputs: ForwardInputs) -> Features:
    """The features of a plug-in component."""
    x, mask = inputs.x, inputs.padding_mask
    query, key = component.make_features(inputs.p, x, mask, inputs.causal)
    query, key = query.to(x.dtype), key.to(x.dtype)
    if key.shape[0] == x.shape[0]:  # a hidden logit has gradient 0, and 0 x NaN is NaN
        key = zero_padded(key.swapaxes(1, 2), mask).swapaxes(1, 2)
    return query, key


FEATURES: dict[str, Callable[[Any, ForwardInputs], Features]] = {
    "dot_product": dot_product,
    "factorized_random": factorized_random,
    "dense": dense,
    "conv_relu_conv": conv_relu_conv,
    "bottleneck": bottleneck,
    "bottleneck_conv": bottleneck_conv,
}


def join(pairs: list[Features]) -> Features:
    """The features of the sum of several logits: side by side."""
    if len(pairs) == 1:
        return pairs[0]
    queries, keys = (side_by_side(list(each)) for each in zip(*pairs, strict=True))
    return queries, keys


def side_by_side(features: list[Tensor]) -> Tensor:
    """Features [B or 1,H,L,f] side by side, each repeated over the batch if another needs it."""
    batch = max(each.shape[0] for each in features)
    return torch.cat([each.expand(batch, -1, -1, -1) for each in features], -1)


def has_features(component: Component) -> bool:
    """Whether a component has features."""
    if isinstance(component, PluginComponent):
        return component.features is not None
    return component.name in FEATURES


def features_of(component: Component, inputs: ForwardInputs, weight: Tensor | None) -> Features:
    """The features of one component, multiplied by its weight [H or 1] in a mixture."""
    if isinstance(component, PluginComponent):
        query, key = plugin_features(component, inputs)
    else:
        query, key = FEATURES[component.name](component, inputs)
    return query if weight is None else query * weight[:, None, None], key


def number_of_features(component: Component, p: dict[str, Tensor]) -> int | None:
    """How many features a component has; None if only a call of a plug-in would show it."""
    if isinstance(component, PluginComponent):
        return None
    count = COUNTS[component.name](p)
    return count + any(f"{component.name}.{last}_bias" in p for last in ("logits", "second"))


COUNTS: dict[str, Callable[[dict[str, Tensor]], int]] = {  # without a bias, which is one more
    "dot_product": lambda p: p["dot_product.query"].shape[-1],
    "factorized_random": lambda p: p["factorized_random.left"].shape[-1],
    "dense": lambda p: p["dense.logits"].shape[-2],
    "conv_relu_conv": lambda p: math.prod(p["conv_relu_conv.second"].shape[:3:2]),
    "bottleneck": lambda p: p["bottleneck.logits"].shape[-2],
    "bottleneck_conv": lambda p: math.prod(p["bottleneck_conv.second"].shape[:2]),
}


def pad_features(x: Tensor, features: int) -> Tensor:
    """X [..,f] with zeros up to `features`."""
    return x if x.shape[-1] == features else F.pad(x, (0, features - x.shape[-1]))
