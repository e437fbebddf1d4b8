"""FLOPs of ATen operations that torch's FlopCounterMode counts as 0 or wrongly.

A formula takes an operation's arguments, with shapes in place of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

from synthbench.backends.torch.private_api import aten_operation

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
    """The gradients of the image and of the weight, if needed, each cost as much as the forward.

    torch's own formula ignores the groups in the weight's gradient: `groups` times too much.
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


BY_NAME: dict[str, Callable[..., int]] = {
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "dot": _matrix_vector,
    "vdot": _matrix_vector,
    "mv": _matrix_vector,
    "addmv": _add_matrix_vector,
    "addmv_": _add_matrix_vector,
    "addbmm": _add_batch_product,
    "addbmm_": _add_batch_product,
    "addmm_": _add_batch_product,
    "baddbmm_": _add_batch_product,
}
# An operation that this version of PyTorch does not have cannot be met.
FORMULAS: dict[Any, Callable[..., int]] = {
    operation: formula
    for name, formula in BY_NAME.items()
    if (operation := aten_operation(name)) is not None
}
