"""What a component of attention is: a synthesizing function S_n(X) that gives logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from synthbench.errors import NotationError, ShapeError, quote
from synthbench.mixers.base import Array, Parameter, Tensors
from synthbench.mixers.declaration import declared_parameters_of
from synthbench.mixers.initializers import ZEROS
from synthbench.mixers.plugin_errors import attribute_plugin_errors
from synthbench.mixers.sizes import Sizes
from synthbench.mixers.state import StateArray

SYNTHESIZER = "Tay et al. 2021 (arXiv 2005.00743)"  # the source of most built-in components


@dataclass(frozen=True)
class Component:
    """One synthesizing function S_n: X [B,L,d] -> logits [B or 1, H, L, L]; subclass it to add one.

    A subclass is a frozen dataclass whose fields are the options of its notation, each with a
    default. It sets `name`, defines `parameters`, and at least one of `torch` and `jax`.
    `reference` and `flops` are optional: they enable the parity check and the formula column.
    """

    name: ClassVar[str]
    label: ClassVar[str | None] = None
    equation: ClassVar[str] = ""
    source: ClassVar[str] = ""

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        """Declare the parameters, each name prefixed with the component's name and a dot."""
        raise NotImplementedError(f"{type(self).__name__} declares no parameters()")

    def biases(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Output shape of each projection that gets a bias if the mixture has `bias`."""
        return {}

    def check(self, sizes: Sizes, siblings: tuple[Component, ...]) -> None:
        """Raise ShapeError or NotationError if this component does not fit."""

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int | None:
        """FLOPs of the logits alone, without value and output; None without a formula."""
        return None

    def state(self, sizes: Sizes) -> dict[str, StateArray] | None:
        """What decoding keeps for a row of logits; empty: nothing; None: it is not declared.

        Each name begins with the component's name and a dot.
        """
        return None

    def reference(
        self, p: Tensors, x: Array, sizes: Sizes, *, padding_mask: Array | None, causal: bool
    ) -> Array:
        """Logits [B or 1, H, L, L] in NumPy, cut to the length of x."""
        raise NotImplementedError

    def torch(self, sizes: Sizes) -> Any:
        """A function (p, x, padding_mask, causal) -> logits [B or 1, H, L, L], in PyTorch."""
        raise NotImplementedError

    def jax(self, sizes: Sizes) -> Any:
        """A function (p, x, padding_mask, causal) -> logits [B or 1, H, L, L], in JAX."""
        raise NotImplementedError

    def torch_features(self, sizes: Sizes) -> Any:
        """For the fused form: a function (p, x, padding_mask, causal) -> (query, key) features.

        Each is [B or 1, H, L, f], and the logits are query key^T. None: there are no features.
        """
        return None

    def jax_features(self, sizes: Sizes) -> Any:
        """The same as `torch_features`, in JAX."""
        return None

    def torch_rows(self, sizes: Sizes) -> Any:
        """For the fused form: a function (p, x, heads, queries) -> logits [B or 1, h, q, L].

        `heads` [h] and `queries` [q] are integers; p holds this component's own parameters, and B
        is the number of examples of x. None: the logits cannot be made a few rows at a time.
        """
        return None

    def jax_rows(self, sizes: Sizes) -> Any:
        """The same as `torch_rows`, in JAX, where `heads` and `queries` may be traced."""
        return None

    @property
    def has_reference(self) -> bool:
        """Whether there is a NumPy reference to check parity against."""
        return type(self).reference is not Component.reference


def component_parameters(component: Component, sizes: Sizes, *, bias: bool) -> dict[str, Parameter]:
    """What a component declares, and its biases if the mixture has them.

    Raises NotationError where a name lacks the component's prefix, or a bias has no projection.
    """
    owner, prefix = type(component).__name__, f"{component.name}."
    declared = declared_parameters_of(component, sizes)
    for name in declared:
        if not name.startswith(prefix):
            raise NotationError(
                f"{owner}.parameters() declares {name!r}; start the name with the component's, "
                f"like {prefix + name!r}"
            )
    if not bias:
        return declared
    with attribute_plugin_errors(type(component), "biases"):
        shapes = component.biases(sizes)
    if not isinstance(shapes, Mapping):
        raise NotationError(
            f"{owner}.biases() returns {quote(shapes)}; return a dict: name of a projection -> the "
            "shape of its bias"
        )
    for projection, shape in shapes.items():
        if projection not in declared:
            raise NotationError(
                f"{owner}.biases() names {projection!r}, which parameters() does not declare; "
                f"use one of {', '.join(declared) or 'no name: it declares none'}"
            )
        declared[f"{projection}_bias"] = Parameter(shape, ZEROS)
    return declared


def require_shape(
    component: Component,
    method: str,
    what: str,
    value: Any,
    letters: tuple[str, ...],
    sizes: tuple[int, ...],
) -> None:
    """Raise ShapeError unless `value` has these sizes, or 1 in place of the first (the batch)."""
    shape = getattr(value, "shape", None)
    if shape is not None and tuple(shape) in (sizes, (1, *sizes[1:])):
        return
    got = f"a {type(value).__name__}, {quote(value)}" if shape is None else f"shape {tuple(shape)}"
    named, numbers = (
        f"[{first} or 1, {', '.join(map(str, rest))}]" for first, *rest in (letters, sizes)
    )
    raise ShapeError(
        f"{component.name}: {method}() gives {what} of {got}; expected {named} = {numbers}"
    )
