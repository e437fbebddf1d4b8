"""The summands of the logits, each computed for some queries and all keys, either axis first.

A term holds arrays [B or 1, H or 1, ...]; `per_query` names those with a query axis, which a step
takes a block of. It is a pytree whose leaves are its arrays, so that gradients come in the same
form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import Array, lax

from synthbench.backends.jax.placement import platform
from synthbench.mixers.plugin_component import PluginComponent


@dataclass(frozen=True)
class Term:
    """One summand of the logits."""

    per_query: ClassVar[tuple[str, ...]] = ()

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays of the term by name."""
        return {name: x for name, x in vars(self).items() if isinstance(x, jax.Array)}

    @property
    def batch(self) -> int:
        """The number of examples of the logits: 1 if all share them."""
        return max(x.shape[0] for x in self.arrays.values())

    @property
    def trained(self) -> dict[str, Array]:
        """The arrays that need a gradient."""
        return self.arrays

    def having(self, arrays: Mapping[str, Array]) -> Self:
        """The same term with other arrays."""
        return replace(self, **arrays)

    def logits(self, seq_len: int, keys_first: bool) -> Array:
        """[B or 1, H or 1, queries, L] of the given queries, or [.., L, queries]."""
        raise NotImplementedError


@partial(jax.tree_util.register_dataclass, data_fields=["query", "key"], meta_fields=["wide"])
@dataclass(frozen=True)
class Features(Term):
    """S = query key^T: features [B or 1, H or 1, L, f]; wide: not to be joined with others."""

    query: Array
    key: Array
    wide: bool = False
    per_query: ClassVar[tuple[str, ...]] = ("query",)

    def logits(self, seq_len: int, keys_first: bool) -> Array:
        return product(self.query, self.key, keys_first)


@partial(
    jax.tree_util.register_dataclass, data_fields=["table", "weight"], meta_fields=["constant"]
)
@dataclass(frozen=True)
class Bias(Term):
    """S = weight table: table [B or 1,H,N,N], perhaps constant, weight [1, H or 1, 1, 1]."""

    table: Array
    weight: Array | None
    constant: bool = False  # the table needs no gradient
    per_query: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def trained(self) -> dict[str, Array]:
        return {n: x for n, x in self.arrays.items() if not (self.constant and n == "table")}

    def logits(self, seq_len: int, keys_first: bool) -> Array:
        rows = self.table[..., :seq_len]
        rows = rows.mT if keys_first else rows
        return rows if self.weight is None else rows * self.weight


@partial(jax.tree_util.register_dataclass, data_fields=["a", "b"], meta_fields=[])
@dataclass(frozen=True)
class Outer(Term):
    """S[..,j] = a[.., j // n] b[.., j % n]: factors [B,H,L,m] and [B,H,L,n], m n >= L."""

    a: Array
    b: Array
    per_query: ClassVar[tuple[str, ...]] = ("a", "b")

    def logits(self, seq_len: int, keys_first: bool) -> Array:
        if keys_first:
            a, b = self.a.mT, self.b.mT
            outer = a[..., :, None, :] * b[..., None, :, :]
            return outer.reshape(*outer.shape[:2], -1, outer.shape[-1])[..., :seq_len, :]
        return outer_rows(self.a, self.b)[..., :seq_len]


@jax.custom_vjp
def outer_rows(a: Array, b: Array) -> Array:
    """a [..,m] and b [..,n] -> their products [..,m n].

    On a CPU as matrix products, with a second column and row of zeros: XLA would compute products
    of numbers in one loop with what uses them, divide an index for each, and take eight times as
    long for the exponential.
    """
    if platform() == "cpu":
        outer = with_zeros(a, -1) @ with_zeros(b, -2)
    else:
        outer = a[..., :, None] * b[..., None, :]
    return outer.reshape(*a.shape[:-1], -1)


def with_zeros(x: Array, axis: int) -> Array:
    """x [..,m] and zeros side by side, along a new axis."""
    return jnp.stack([x, jnp.zeros_like(x)], axis)


def _outer_forward(a: Array, b: Array) -> tuple[Array, tuple[Array, Array]]:
    return outer_rows(a, b), (a, b)


def _outer_backward(factors: tuple[Array, Array], d_rows: Array) -> tuple[Array, Array]:
    """Computed as products: on a CPU, XLA's sums over parts of an axis are several times slower."""
    a, b = factors
    d_outer = d_rows.reshape(*a.shape, b.shape[-1])
    return jnp.einsum("...mn,...n->...m", d_outer, b), jnp.einsum("...mn,...m->...n", d_outer, a)


outer_rows.defvjp(_outer_forward, _outer_backward)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["query", "key", "gate", "weight"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Gated(Term):
    """S = weight (query key^T) * sigmoid(query gate^T): features [B or 1, H, L, f]."""

    query: Array
    key: Array
    gate: Array
    weight: Array | None
    per_query: ClassVar[tuple[str, ...]] = ("query",)

    def logits(self, seq_len: int, keys_first: bool) -> Array:
        gate = jax.nn.sigmoid(product(self.query, self.gate, keys_first))
        rows = product(self.query, self.key, keys_first) * gate
        return rows if self.weight is None else rows * self.weight


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["queries", "heads", "x", "weight", "parameters"],
    meta_fields=["names", "component"],
)
@dataclass(frozen=True)
class Rows(Term):
    """S = weight times the rows that a plug-in component computes from its parameters and x.

    Axes of size 1 are never cut: parameters come whole, x [B,1,L,d] with a step's examples.
    """

    queries: Array  # [1,1,L,1] indices
    heads: Array  # [1,H,1,1] indices
    x: Array
    weight: Array | None
    parameters: tuple[Array, ...]
    names: tuple[str, ...]
    component: PluginComponent
    per_query: ClassVar[tuple[str, ...]] = ("queries",)

    @property
    def arrays(self) -> dict[str, Array]:
        return {**super().arrays, **dict(zip(self.names, self.parameters, strict=True))}

    @property
    def trained(self) -> dict[str, Array]:
        return {n: x for n, x in self.arrays.items() if n not in ("queries", "heads")}

    def having(self, arrays: Mapping[str, Array]) -> Self:
        own = [name for name in self.names if name in arrays]
        changed: dict[str, Any] = {n: x for n, x in arrays.items() if n not in own}
        if own:
            merged = {**self.arrays, **arrays}
            changed["parameters"] = tuple(merged[name] for name in self.names)
        return replace(self, **changed)

    def logits(self, seq_len: int, keys_first: bool) -> Array:
        p = {n: x[0, 0, 0] for n, x in zip(self.names, self.parameters, strict=True)}
        heads, queries = self.heads[0, :, 0, 0], self.queries[0, 0, :, 0]
        rows = self.component.make_rows(p, self.x[:, 0], heads, queries).astype(self.x.dtype)
        rows = rows.mT if keys_first else rows
        return rows if self.weight is None else rows * self.weight


def product(query: Array, key: Array, keys_first: bool) -> Array:
    """query key^T, or its transpose."""
    left, right = (key, query) if keys_first else (query, key)
    return product_on_cpu(left, right) if platform() == "cpu" else left @ right.mT


@jax.custom_vjp
def product_on_cpu(left: Array, right: Array) -> Array:
    """left right^T; the gradient of `right` is computed in an order that suits XLA on a CPU."""
    return left @ right.mT


def _product_forward(left: Array, right: Array) -> tuple[Array, tuple[Array, Array]]:
    return left @ right.mT, (left, right)


def _product_backward(factors: tuple[Array, Array], d: Array) -> tuple[Array, Array]:
    """A large matrix is slow to read as the transposed left factor, and fast as the right one."""
    left, right = factors
    d_right = lax.optimization_barrier(left.mT @ d).mT  # else XLA exchanges the factors
    return _summed(d @ right, left), _summed(d_right, right)


product_on_cpu.defvjp(_product_forward, _product_backward)


def _summed(gradient: Array, x: Array) -> Array:
    """The gradient of an x that was broadcast over examples or heads."""
    axes = tuple(n for n, size in enumerate(x.shape) if size < gradient.shape[n])
    return gradient.sum(axes, keepdims=True) if axes else gradient


def mixed(terms: Any, seq_len: int, keys_first: bool) -> Array:
    """The sum of the terms, in float32 or float64."""
    logits = [t.logits(seq_len, keys_first) for t in terms]
    total = logits[0].astype(jnp.promote_types(logits[0].dtype, jnp.float32))
    for more in logits[1:]:
        total = total + more
    return total
