"""Multiply-accumulates of each ATen operation that contracts, as handles for fvcore.

A handle takes the inputs and outputs of one node of a traced graph and returns a count. fvcore's
own handles are not used: its matmul ignores a batch that only the second operand has, its einsum
counts a path that torch does not use, and it has none for scaled_dot_product_attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

Values = Sequence[Any]  # torch._C.Value
Handle = Callable[[Values, Values], int]


def matrix_product(first: int) -> Handle:
    """A product whose left operand is input `first`: [.., m, k] by [.., k, n], broadcast."""

    def handle(inputs: Values, outputs: Values) -> int:
        left = _shape(inputs[first])
        return prod(_shape(outputs[0])) * left[-1]

    return handle


def linear(inputs: Values, outputs: Values) -> int:
    """Input [.., i] by weight [o, i] or [i]."""
    return prod(_shape(outputs[0])) * _shape(inputs[1])[-1]


def summed_batch_product(inputs: Values, outputs: Values) -> int:
    """addbmm: [b, m, k] by [b, k, n], summed over b."""
    return prod(_shape(inputs[1])) * _shape(inputs[2])[-1]


def inner(inputs: Values, outputs: Values) -> int:
    """torch.inner: contracts the last axes; with a scalar it only scales."""
    left, right = _shape(inputs[0]), _shape(inputs[1])
    return prod(_shape(outputs[0])) * left[-1] if left and right else 0


def tensordot(inputs: Values, outputs: Values) -> int:
    """torch.tensordot: contracts the axes listed for the left operand, or none (outer product)."""
    left = _shape(inputs[0])
    return prod(_shape(outputs[0])) * prod(left[axis] for axis in _integers(inputs[2]))


def convolution(inputs: Values, outputs: Values) -> int:
    """_convolution: weight [out, in / groups, ..] at every output position, with padding.

    A transposed convolution applies its weight [in, out / groups, ..] at every input position.
    """
    return _convolution(inputs, outputs, transposed=bool(inputs[6].toIValue()))


def convolution_mode(inputs: Values, outputs: Values) -> int:
    """_convolution_mode: padding "same" or "valid", never transposed."""
    return _convolution(inputs, outputs, transposed=False)


def _convolution(inputs: Values, outputs: Values, *, transposed: bool) -> int:
    image, weight, out = _shape(inputs[0]), _shape(inputs[1]), _shape(outputs[0])
    space = len(weight) - 2
    batch = prod(image[: -space - 1])
    return batch * prod(weight) * prod((image if transposed else out)[-space:])


def attention(inputs: Values, outputs: Values) -> int:
    """scaled_dot_product_attention: query by keys, then weights by values, masked or not."""
    query, key, out = _shape(inputs[0]), _shape(inputs[1]), _shape(outputs[0])
    return prod(out[:-1]) * key[-2] * (query[-1] + out[-1])


def einsum(inputs: Values, outputs: Values) -> int:
    """einsum, contracted in pairs in torch's order."""
    shapes = [_shape(value) for value in inputs[1].node().inputs()]
    path = _integers(inputs[2]) if len(inputs) > 2 else []
    return einsum_products(inputs[0].toIValue(), shapes, path)


def einsum_products(
    equation: str, shapes: Sequence[Sequence[int]], path: Sequence[int] = ()
) -> int:
    """Multiply-accumulates of an einsum whose operands are contracted in pairs.

    `path` is torch's: the positions of each pair, whose result is appended; if empty, pairs go from
    left to right. An index that only one of the two operands has, and that nothing later needs, is
    summed out first. A pair that contracts nothing and is not an outer product is multiplied
    elementwise, which is free.
    """
    terms, arrow, out = equation.replace(" ", "").partition("->")
    operands = [_labels(t, len(s)) for t, s in zip(terms.split(","), shapes, strict=True)]
    sizes: dict[str, int] = {}
    for labels, shape in zip(operands, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    dots = {label for label in sizes if len(label) > 1}
    if arrow:
        kept = set(out.replace("...", "")) | (dots if "..." in out else set())
    else:
        times = Counter(label for labels in operands for label in labels)
        kept = dots | {label for label, n in times.items() if n == 1}

    products, remaining, order = 0, [set(labels) for labels in operands], list(path)
    while len(remaining) > 1:
        i, j = sorted(order[:2]) if order else (0, 1)
        right, left = remaining.pop(j), remaining.pop(i)
        needed = kept.union(*remaining)
        result = (left | right) & needed
        contracted = (left & right) - needed
        if contracted or (result - left and result - right):
            products += prod(sizes[label] for label in contracted | result)
        remaining.insert(len(remaining) if order else 0, result)
        order = order[2:]
    return products


def _labels(term: str, rank: int) -> list[str]:
    """One label per axis; axes under an ellipsis are numbered from the right, to broadcast."""
    head, dots, tail = term.partition("...")
    hidden = rank - len(head) - len(tail) if dots else 0
    return [*head, *(f"...{n}" for n in range(hidden, 0, -1)), *tail]


def _shape(value: Any) -> list[int]:
    sizes: list[int] = value.type().sizes()
    return sizes


def _integers(value: Any) -> list[int]:
    """A list of integers, either a constant of the graph or built from constants; [] for None."""
    if value.node().kind() == "prim::ListConstruct":
        return [int(each.toIValue()) for each in value.node().inputs()]
    constant = value.toIValue()
    return [int(each) for each in constant] if constant is not None else []


HANDLES: dict[str, Handle] = {
    "aten::matmul": matrix_product(0),
    "aten::linalg_matmul": matrix_product(0),
    "aten::mm": matrix_product(0),
    "aten::bmm": matrix_product(0),
    "aten::mv": matrix_product(0),
    "aten::dot": matrix_product(0),
    "aten::vdot": matrix_product(0),
    "aten::addmm": matrix_product(1),
    "aten::addmv": matrix_product(1),
    "aten::baddbmm": matrix_product(1),
    "aten::addbmm": summed_batch_product,
    "aten::addmm_": matrix_product(1),
    "aten::addmv_": matrix_product(1),
    "aten::baddbmm_": matrix_product(1),
    "aten::addbmm_": summed_batch_product,
    "aten::linear": linear,
    "aten::inner": inner,
    "aten::tensordot": tensordot,
    "aten::einsum": einsum,
    "aten::_convolution": convolution,
    "aten::convolution": convolution,
    "aten::_convolution_mode": convolution_mode,
    "aten::scaled_dot_product_attention": attention,
}
