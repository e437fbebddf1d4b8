"""The further synthesizing functions of the Synthesizer paper's Table 8, written plainly."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
from jax import Array

Weights = Mapping[str, Array]


def convolved(x: Array, kernel: Array, groups: int = 1) -> Array:
    """x [B,L,c] with kernel [w, c / groups, out], zeros outside the sequence -> [B,L,out]."""
    width = kernel.shape[0]
    return jax.lax.conv_general_dilated(
        x, kernel, (1,), [(width // 2, width - 1 - width // 2)],
        dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=groups,
    )  # fmt: skip


def by_head(y: Array, heads: int) -> Array:
    """[B,L,H n] -> [B,H,L,n]."""
    return y.reshape(*y.shape[:2], heads, -1).swapaxes(1, 2)


def convolution(p: Weights, x: Array) -> Array:
    """S = conv(X)."""
    kernel = p["conv.kernel"]
    return by_head(convolved(x, kernel.reshape(*kernel.shape[:2], -1)), kernel.shape[2])


def two_convolutions(p: Weights, x: Array) -> Array:
    """S = conv(relu(conv(X))), the second within each head."""
    first, second = p["conv_relu_conv.first"], p["conv_relu_conv.second"]
    width, heads, k, _ = second.shape
    hidden = jax.nn.relu(convolved(x, first.reshape(*first.shape[:2], -1)))
    kernel = second.swapaxes(1, 2).reshape(width, k, -1)
    return by_head(convolved(hidden, kernel, groups=heads), heads)


def bottleneck(p: Weights, x: Array) -> Array:
    """S = relu(relu(X down) up) logits."""
    hidden = jax.nn.relu(jax.nn.relu(x @ p["bottleneck.down"]) @ p["bottleneck.up"])
    return by_head(hidden, p["bottleneck.logits"].shape[0]) @ p["bottleneck.logits"]


def bottleneck_convolution(p: Weights, x: Array) -> Array:
    """S = conv(relu(conv(X))) through a few channels."""
    second = p["bottleneck_conv.second"]
    hidden = jax.nn.relu(convolved(x, p["bottleneck_conv.first"]))
    return by_head(convolved(hidden, second.reshape(*second.shape[:2], -1)), second.shape[2])


def gated_linear(p: Weights, x: Array) -> Array:
    """S = (Xh logits) sigmoid(Xh gate), with Xh the heads of X."""
    heads = by_head(x, p["glu.logits"].shape[0])
    return (heads @ p["glu.logits"]) * jax.nn.sigmoid(heads @ p["glu.gate"])


COMPONENTS: dict[str, Callable[[Weights, Array], Array]] = {
    "conv": convolution,
    "conv_relu_conv": two_convolutions,
    "bottleneck": bottleneck,
    "bottleneck_conv": bottleneck_convolution,
    "glu": gated_linear,
}
