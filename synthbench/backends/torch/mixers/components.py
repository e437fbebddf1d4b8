"""The synthesizing functions by name, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from synthbench.backends.torch.mixers import (
    convolutional,
    dense,
    dot_product,
    factorized_dense,
    factorized_random,
    pointwise,
    random,
)
from synthbench.backends.torch.mixers.numerics import ForwardInputs
from synthbench.mixers.component import Component
from synthbench.mixers.plugin_component import PluginComponent

LOGITS: dict[str, Callable[[Any, ForwardInputs], Tensor]] = {
    "dot_product": dot_product.logits,
    "random": random.random,
    "fixed_random": random.fixed_random,
    "factorized_random": factorized_random.logits,
    "dense": dense.logits,
    "factorized_dense": factorized_dense.logits,
    "conv": convolutional.conv,
    "conv_relu_conv": convolutional.conv_relu_conv,
    "bottleneck": pointwise.bottleneck,
    "bottleneck_conv": convolutional.bottleneck_conv,
    "glu": pointwise.glu,
}


def logits(component: Component, inputs: ForwardInputs) -> Tensor:
    """S_n(X) [B or 1, H, L, L] of one component."""
    if isinstance(component, PluginComponent):
        made: Tensor = component.make_logits(inputs.p, inputs.x, inputs.padding_mask, inputs.causal)
        return made.to(inputs.x.dtype)
    return LOGITS[component.name](component, inputs)
