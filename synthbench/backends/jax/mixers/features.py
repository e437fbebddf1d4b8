"""The terms of each component for the fused forms; their sum is the logits.

All but R, Fix, FD and glu are a pair of features, S = query key^T, and a weighted sum of pairs is
one pair: the weight multiplied into the query, the features side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from synthbench.backends.jax.mixers import components, convolutional, pointwise
from synthbench.backends.jax.mixers.factorized_dense import factor
from synthbench.backends.jax.mixers.numerics import (
    ForwardInputs,
    side_by_side_windows,
    softmax,
    split_heads,
    zero_padded,
)
from synthbench.backends.jax.mixers.terms import Bias, Features, Gated, Outer, Rows, Term
from synthbench.backends.kernel_record import record_kernel
from synthbench.mixers.attention import Attention
from synthbench.mixers.component import Component
from synthbench.mixers.convolutional import BottleneckConv, Conv, ConvReluConv
from synthbench.mixers.dense import Dense
from synthbench.mixers.dot_product import DotProduct
from synthbench.mixers.factorized_dense import FactorizedDense
from synthbench.mixers.factorized_random import FactorizedRandom
from synthbench.mixers.plugin_component import PluginComponent
from synthbench.mixers.pointwise import Bottleneck, Glu
from synthbench.mixers.random import FixedRandom, Random

Weight = Array | None  # of a component in a mixture, [1, H or 1, 1, 1]


def terms(mixer: Attention, inputs: ForwardInputs) -> tuple[Term, ...]:
    """The terms of a mixture, weights included, pairs of features joined."""
    weights: list[Weight] = [None] * len(mixer.components)
    if "alpha" in inputs.p:
        alpha = inputs.p["alpha"]
        weights = list(softmax(alpha, axis=0).reshape(len(alpha), 1, -1, 1, 1))
    made = [
        term_of(component, inputs, weight)
        for component, weight in zip(mixer.components, weights, strict=True)
    ]
    if "position_bias" in inputs.p:  # [1,H,L,L], of the model around the mixer
        made.append(Bias(inputs.p["position_bias"], None))
    narrow = [t for t in made if isinstance(t, Features) and not t.wide]
    others = tuple(t for t in made if not (isinstance(t, Features) and not t.wide))
    return (join(narrow), *others) if narrow else others


def is_table(component: Component) -> bool:
    """Whether the term of a component is a table of logits."""
    if isinstance(component, PluginComponent):
        return component.features is None and component.rows is None
    return component.name in ("random", "fixed_random")


def term_of(component: Component, inputs: ForwardInputs, weight: Weight) -> Term:
    """The term of one component, multiplied by its weight in a mixture."""
    if isinstance(component, PluginComponent):
        return plugin_term(component, inputs, weight)
    return TERMS[component.name](component, inputs, weight)


def join(pairs: list[Features]) -> Features:
    """One pair with the features of all, side by side."""
    if len(pairs) == 1:
        return pairs[0]

    def side_by_side(features: list[Array]) -> Array:
        B, H = (max(x.shape[axis] for x in features) for axis in (0, 1))
        whole = [jnp.broadcast_to(x, (B, H, *x.shape[2:])) for x in features]
        return jnp.concatenate(whole, axis=-1)

    return Features(side_by_side([p.query for p in pairs]), side_by_side([p.key for p in pairs]))


def weighted(x: Array, weight: Weight) -> Array:
    """x times its component's weight."""
    return x if weight is None else x * weight


def heads_first(x: Array) -> Array:
    """[B,L,H,f] -> [B,H,L,f]."""
    return x.swapaxes(1, 2)


def biased(query: Array, keys: list[tuple[Array, Array | None]]) -> tuple[Array, ...]:
    """Query [B,H,L,f] and maps (keys [1,H,L,f], bias [H or 1, L] or None): a bias is a feature."""
    if all(bias is None for _, bias in keys):
        return query, *(key for key, _ in keys)
    query = jnp.concatenate([query, jnp.ones_like(query[..., :1])], axis=-1)
    columns = [
        jnp.zeros_like(key[..., :1]) if bias is None else bias[None, :, :, None]
        for key, bias in keys
    ]
    joined = (
        jnp.concatenate([key, column], axis=-1)
        for (key, _), column in zip(keys, columns, strict=True)
    )
    return query, *joined


def map_of(inputs: ForwardInputs, name: str) -> tuple[Array, Array | None]:
    """A map [H,k,N] or [k,N] cut to L as keys [1, H or 1, L, k], and its bias [H or 1, L]."""
    weight, bias = (
        None if x is None else x[..., : inputs.x.shape[1]]
        for x in (inputs.p[name], inputs.p.get(f"{name}_bias"))
    )
    assert weight is not None
    keys = weight[None].mT if weight.ndim == 3 else weight[None, None].mT
    return keys, None if bias is None else jnp.atleast_2d(bias)


def dot_product(component: DotProduct, inputs: ForwardInputs, weight: Weight) -> Features:
    """V: (Q / sqrt(k), K)."""
    query, key = inputs.project("dot_product.query"), inputs.project("dot_product.key")
    scaled = heads_first(query) * query.shape[-1] ** -0.5
    return Features(weighted(scaled, weight), heads_first(key))


def factorized_random(
    component: FactorizedRandom, inputs: ForwardInputs, weight: Weight
) -> Features:
    """FR: (left, right), the same for every example."""
    L = inputs.x.shape[1]
    left = inputs.p["factorized_random.left"][None, :, :L]
    right = inputs.p["factorized_random.right"][None, :, :L]
    return Features(weighted(left, weight), right)


def dense(component: Dense, inputs: ForwardInputs, weight: Weight) -> Features:
    """D: (relu(X hidden), logits^T)."""
    hidden = heads_first(jax.nn.relu(inputs.project(component.hidden_name)))
    query, key = biased(hidden, [map_of(inputs, "dense.logits")])
    return Features(weighted(query, weight), key)


def bottleneck(component: Bottleneck, inputs: ForwardInputs, weight: Weight) -> Features:
    """(relu(relu(X down) up), logits^T)."""
    split = heads_first(pointwise.bottleneck_hidden(inputs))
    query, key = biased(split, [map_of(inputs, "bottleneck.logits")])
    return Features(weighted(query, weight), key)


def bottleneck_conv(component: BottleneckConv, inputs: ForwardInputs, weight: Weight) -> Features:
    """(windows of relu(conv1(X)), second^T)."""
    hidden = convolutional.first_convolution("bottleneck_conv", inputs)
    return last_convolution(hidden, "bottleneck_conv.second", inputs, weight)


def conv(component: Conv, inputs: ForwardInputs, weight: Weight) -> Features:
    """(windows of X, kernel^T)."""
    return last_convolution(
        zero_padded(inputs.x, inputs.padding_mask), "conv.kernel", inputs, weight
    )


def conv_relu_conv(component: ConvReluConv, inputs: ForwardInputs, weight: Weight) -> Features:
    """(windows of relu(conv1(X)) by head, second^T)."""
    hidden = convolutional.first_convolution("conv_relu_conv", inputs)  # [B,L,H,k]
    second, L = inputs.p["conv_relu_conv.second"], inputs.x.shape[1]
    bias = inputs.p.get("conv_relu_conv.second_bias")
    window = side_by_side_windows(hidden, second.shape[0], inputs.causal)  # [B,L,w,H,k]
    query = window.transpose(0, 3, 1, 2, 4).reshape(*hidden.swapaxes(1, 2).shape[:3], -1)
    key = second[..., :L].transpose(1, 3, 0, 2).reshape(1, hidden.shape[2], L, -1)
    query, key = biased(query, [(key, None if bias is None else bias[:, :L])])
    return Features(weighted(query, weight), key, wide=True)


def last_convolution(x: Array, name: str, inputs: ForwardInputs, weight: Weight) -> Features:
    """Kernel [w,c,H,N] over X [B,L,c] as a pair: windows of X [B,1,L,w c], and the kernel."""
    L, kernel, bias = x.shape[1], inputs.p[name], inputs.p.get(f"{name}_bias")
    w, c, H, _ = kernel.shape
    window = side_by_side_windows(x, w, inputs.causal).reshape(x.shape[0], 1, L, w * c)
    key = kernel[..., :L].reshape(w * c, H, L).transpose(1, 2, 0)[None]
    query, key = biased(window, [(key, None if bias is None else bias[:, :L])])
    return Features(query, weighted(key, weight), wide=True)


def random(component: Random, inputs: ForwardInputs, weight: Weight) -> Bias:
    """R: the trained logits."""
    return Bias(inputs.p["random.logits"][None], weight)


def fixed_random(component: FixedRandom, inputs: ForwardInputs, weight: Weight) -> Bias:
    """Fix: the constant logits."""
    return Bias(inputs.p["fixed_random.logits"][None], weight, constant=True)


def factorized_dense(component: FactorizedDense, inputs: ForwardInputs, weight: Weight) -> Outer:
    """FD: its two factors."""
    hidden_a, hidden_b = component.hidden_names
    a = factor(inputs, hidden_a, "factorized_dense.a")
    b = factor(inputs, hidden_b, "factorized_dense.b")
    return Outer(weighted(a, weight), b)


def glu(component: Glu, inputs: ForwardInputs, weight: Weight) -> Gated:
    """X by heads, and its two maps."""
    split = heads_first(split_heads(inputs.x, inputs.p["glu.logits"].shape[0]))
    maps = [map_of(inputs, "glu.logits"), map_of(inputs, "glu.gate")]
    query, key, gate = biased(split, maps)
    return Gated(query, key, gate, weight)


def plugin_term(component: PluginComponent, inputs: ForwardInputs, weight: Weight) -> Term:
    """The features of a plug-in component, else its rows by block, else all of its logits."""
    p, x, mask = inputs.p, inputs.x, inputs.padding_mask
    if component.features is not None:
        query, key = component.make_features(p, x, mask, inputs.causal)
        query, key = query.astype(x.dtype), key.astype(x.dtype)
        if key.shape[0] == x.shape[0]:  # a hidden logit has gradient 0, and 0 x NaN is NaN
            key = heads_first(zero_padded(heads_first(key), mask))
        return Features(weighted(query, weight), key)
    if component.rows is not None:
        return plugin_rows(component, inputs, weight)
    record_kernel(component.whole_kernel)
    return Bias(components.logits(component, inputs), weight)


def plugin_rows(component: PluginComponent, inputs: ForwardInputs, weight: Weight) -> Rows:
    """The rows of a plug-in component by block."""
    own = component.own(inputs.p)
    return Rows(
        queries=jnp.arange(inputs.x.shape[1])[None, None, :, None],
        heads=jnp.arange(component.heads)[None, :, None, None],
        x=inputs.x[:, None],
        weight=weight,
        parameters=tuple(array[None, None, None] for array in own.values()),
        names=tuple(own),
        component=component,
    )


TERMS: dict[str, Callable[[Any, ForwardInputs, Weight], Term]] = {
    "dot_product": dot_product,
    "random": random,
    "fixed_random": fixed_random,
    "factorized_random": factorized_random,
    "dense": dense,
    "factorized_dense": factorized_dense,
    "conv": conv,
    "conv_relu_conv": conv_relu_conv,
    "bottleneck": bottleneck,
    "bottleneck_conv": bottleneck_conv,
    "glu": glu,
}
