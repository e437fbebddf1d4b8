"""Multiply-accumulates of each JAX primitive that contracts, from the shapes of one equation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

Rule = Callable[[Any], int]  # of a jaxpr's equation


def dot_general(eqn: Any) -> int:
    """dot_general: every element of the left operand times every free index of the right one.

    With no contracted axis it is free, as an elementwise product, unless both operands have free
    axes: then it is an outer product, such as the gradient of a matrix product.
    """
    (left_contracted, right_contracted), (_, right_batch) = eqn.params["dimension_numbers"]
    left, right = (len(operand.aval.shape) for operand in eqn.invars)
    shared = len(left_contracted) + len(right_batch)
    if not left_contracted and (left == shared or right == shared):
        return 0
    return _pairs(eqn, excluded=(*right_contracted, *right_batch))


def ragged_dot_general(eqn: Any) -> int:
    """ragged_dot_general: each row belongs to one group, so the number of groups does not count."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, right_contracted), (_, right_batch) = numbers.dot_dimension_numbers
    return _pairs(eqn, excluded=(*right_contracted, *right_batch, *numbers.rhs_group_dimensions))


def _pairs(eqn: Any, *, excluded: tuple[int, ...]) -> int:
    left, right = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    return int(prod(left) * prod(size for axis, size in enumerate(right) if axis not in excluded))


def conv_general_dilated(eqn: Any) -> int:
    """conv_general_dilated: the kernel at every output position, with padding.

    The kernel's input axis is already that of one group. Along an axis where the input is dilated
    with zeros (a transposed convolution, the gradient of a strided one), the kernel counts at every
    input position instead. But an input position meets each output position at most once: in the
    weight gradient of a transposed convolution the outputs are few, and the "kernel" is long.
    """
    image, kernel = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    out = eqn.outvars[0].aval.shape
    numbers = eqn.params["dimension_numbers"]
    products = out[numbers.out_spec[0]] * out[numbers.out_spec[1]] * kernel[numbers.rhs_spec[1]]
    for axis, spread in enumerate(eqn.params["lhs_dilation"], start=2):
        inputs, outputs = image[numbers.lhs_spec[axis]], out[numbers.out_spec[axis]]
        width = kernel[numbers.rhs_spec[axis]]
        products *= inputs * min(width, outputs) if spread > 1 else outputs * width
    return int(products)


def attention(eqn: Any) -> int:
    """cuDNN's fused attention: query by keys, then weights by values."""
    return _attention_products(eqn, eqn.outvars[0].aval.shape, keys=1, values=1)


def attention_backward(eqn: Any) -> int:
    """Its backward: the logits recomputed, two products for query and key, two for the values."""
    return _attention_products(eqn, eqn.invars[11].aval.shape, keys=3, values=2)


def _attention_products(eqn: Any, out: tuple[int, ...], *, keys: int, values: int) -> int:
    query, key = eqn.invars[0].aval.shape, eqn.invars[1].aval.shape
    length = key[1] if eqn.params["layout"] == 0 else key[2]  # 0: BTNH, 1: BNTH
    return int(length * (keys * prod(query) + values * prod(out)))


RULES: dict[str, Rule] = {
    "dot_general": dot_general,
    "ragged_dot_general": ragged_dot_general,
    "conv_general_dilated": conv_general_dilated,
    "dot_product_attention_fwd": attention,
    "dot_product_attention_fwd_wrapper": attention,
    "dot_product_attention_bwd": attention_backward,
    "dot_product_attention_bwd_wrapper": attention_backward,
}
