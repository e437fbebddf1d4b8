"""FLOPs of ATen operations that torch's FlopCounterMode counts as 0, or wrongly.

A formula takes an operation's arguments, tensors given by their shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

Shape = tuple[int, ...]


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    flops: int = sdpa_flop_count(query, key, value)
    return flops


def _attention_backward(
    gradient: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any
) -> int:
    flops: int = sdpa_backward_flop_count(gradient, query, key, value)
    return flops


def _convolution_backward(
    gradient: Shape,
    image: Shape,
    weight: Shape,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: tuple[bool, bool, bool],
    **_: Any,
) -> int:
    """Each gradient asked for, of the image and of the weight, costs what the forward pass cost.

    torch's own formula takes the weight's gradient for a dense one, `groups` times too much.
    """
    positions = prod((image if transposed else gradient)[2:])
    forward = 2 * image[0] * prod(weight) * positions
    return forward * (bool(output_mask[0]) + bool(output_mask[1]))


def _matrix_vector(matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _add_matrix_vector(start: Shape, matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _add_batch_product(start: Shape, left: Shape, right: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(left) * right[-1]


aten = torch.ops.aten
FORMULAS: dict[Any, Callable[..., int]] = {
    aten.convolution_backward: _convolution_backward,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten.dot: _matrix_vector,
    aten.vdot: _matrix_vector,
    aten.mv: _matrix_vector,
    aten.addmv: _add_matrix_vector,
    aten.addmv_: _add_matrix_vector,
    aten.addbmm: _add_batch_product,
    aten.addbmm_: _add_batch_product,
    aten.addmm_: _add_batch_product,
    aten.baddbmm_: _add_batch_product,
}
