"""What a mixer is, with no framework imported: sizes, declared parameters, cost, reference.

Shape legend, here and in every mixer: B batch, L length of this batch, N `max_len`, d `d_model`,
H heads, k `head_dim`, r rank, K width of a kernel. Einsum letters follow it: b l m d h k n r,
with l the query (output) position and m the key (input) position.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthbench.errors import (
    NotationError,
    ShapeError,
    SynthbenchError,
    UnsupportedError,
    shown,
)
from synthbench.mixers.foreign import blamed
from synthbench.mixers.whole import divisors, listed, whole

Array = NDArray[Any]
Tensors = Mapping[str, Array]
Initializer = Callable[[np.random.Generator, tuple[int, ...]], Array]


@dataclass(frozen=True)
class Sizes:
    """The sizes a mixer is built for: d_model d, heads H, head_dim k, max_len N."""

    d_model: int
    heads: int
    head_dim: int
    max_len: int

    @classmethod
    def of(cls, *, d_model: int, heads: int, max_len: int, head_dim: int | None = None) -> Sizes:
        """Fill in `head_dim` = d_model / heads where it is not given.

        Raises ShapeError for a size that is no whole number of at least 1, or heads that do not
        divide d_model.
        """
        d_model, heads = whole("d_model", d_model), whole("heads", heads)
        max_len = whole("max_len", max_len)
        if head_dim is None:
            require_divisible(d_model, heads, or_else=", or give head_dim")
            head_dim = d_model // heads
        return cls(d_model, heads, whole("head_dim", head_dim), max_len)

    @classmethod
    def for_mixer(
        cls,
        mixer: Mixer,
        *,
        d_model: int,
        heads: int,
        max_len: int,
        head_dim: int | None = None,
        causal: bool = False,
        head_dim_known: bool = True,
    ) -> Sizes:
        """`of`, and checked by the mixer; a `head_dim` is asked for only where it would help.

        `head_dim_known` says that the caller could give one. Raises what the mixer's `check` does.
        """
        d_model, heads = whole("d_model", d_model), whole("heads", heads)
        max_len = whole("max_len", max_len)
        if head_dim is None and d_model % heads:
            apart = cls(d_model, heads, max(1, d_model // heads), max_len)
            helps = head_dim_known and _passes(mixer, apart)
            require_divisible(d_model, heads, or_else=", or give head_dim" if helps else "")
        sizes = cls.of(d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim)
        checked(mixer, sizes, causal=causal)
        return sizes

    def require_length(self, seq_len: int) -> None:
        """Raise ShapeError unless 1 <= seq_len <= max_len."""
        if not 1 <= seq_len <= self.max_len:
            raise ShapeError(
                f"length {seq_len} does not fit max_len {self.max_len}; "
                f"use a length from 1 to {self.max_len}, or a larger max_len"
            )

    def require_split(self, what: str) -> None:
        """Raise ShapeError unless the channels split exactly into the heads (d = H k)."""
        if self.d_model != self.heads * self.head_dim:
            raise ShapeError(
                f"{what} splits its input by heads, so head_dim must be d_model / heads: "
                f"got d_model {self.d_model}, heads {self.heads}, head_dim {self.head_dim}"
            )


def require_divisible(d_model: int, heads: int, or_else: str = "") -> None:
    """Raise ShapeError, naming the counts that would do, unless heads divide d_model."""
    if d_model % heads:
        raise ShapeError(
            f"d_model {d_model} is not divisible by heads {heads}; "
            f"use heads in {listed(divisors(d_model))}{or_else}"
        )


def checked(mixer: Mixer, sizes: Sizes, *, causal: bool = False) -> None:
    """Raise what a mixer's `check` has against these sizes, or SynthbenchError where it fails."""
    with blamed(type(mixer), "check"):
        mixer.check(sizes, causal=causal)


def _passes(mixer: Mixer, sizes: Sizes) -> bool:
    try:
        checked(mixer, sizes)
    except ShapeError:
        return False
    return True


@dataclass(frozen=True)
class Parameter:
    """A declared parameter: its shape, how its start value is drawn, whether it is trained."""

    shape: tuple[int, ...]
    init: Initializer
    trainable: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple | list):
            raise ShapeError(
                f"a parameter's shape is {shown(self.shape)}; write a tuple of whole numbers"
            )
        shape = tuple(whole("a size in a parameter's shape", size) for size in self.shape)
        object.__setattr__(self, "shape", shape)
        if not callable(self.init):
            raise NotationError(
                f"a parameter's start value is {shown(self.init)}; give a function "
                "(generator, shape) -> array, like synthbench.Normal(0.02) or synthbench.xavier"
            )

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Cost:
    """What a mixer costs: trained parameters, stored constants, FLOPs of one forward pass.

    FLOPs count 2 for each multiply-accumulate of a matrix product or convolution, nothing else.
    """

    parameters: int
    constants: int
    flops: int | None


@dataclass(frozen=True)
class Mixer:
    """A layer X [B,L,d] -> Y [B,L,d] that mixes positions; subclass it to add a baseline.

    A subclass is a frozen dataclass whose fields are the options of its notation, each with a
    default. It sets `name`, defines `parameters`, and at least one of `torch` and `jax`.
    `reference` and `flops` are optional: they buy the parity check and the formula column.
    """

    name: ClassVar[str]
    label: ClassVar[str | None] = None
    equation: ClassVar[str] = ""
    source: ClassVar[str] = ""
    # The share of `flops` that an exact implementation cannot do without: none is faster.
    needed_share: ClassVar[float] = 1.0

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        """Declare every parameter by name; a dot in a name makes a submodule."""
        raise NotImplementedError(f"{type(self).__name__} declares no parameters()")

    def check(self, sizes: Sizes, *, causal: bool = False) -> None:
        """Raise ShapeError or UnsupportedError where this mixer cannot be built or run so."""

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int | None:
        """FLOPs of one forward pass at [batch, seq_len]; None where no formula is given."""
        return None

    def reference(
        self,
        p: Tensors,
        x: Array,
        sizes: Sizes,
        *,
        padding_mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        """Y [B,L,d] in NumPy, in the precision of `x`; padding_mask [B,L], True = a real token."""
        raise NotImplementedError

    def weights(
        self,
        p: Tensors,
        x: Array,
        sizes: Sizes,
        *,
        padding_mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        """What a position weighs each of the things it sums: [B or 1, H, L or 1, things], NumPy.

        Raises UnsupportedError for a mixer that weighs nothing.
        """
        raise UnsupportedError(f"{self.name} has no weights over positions to look at")

    @property
    def has_reference(self) -> bool:
        """Whether a NumPy reference is given, so that parity can be checked against it."""
        return type(self).reference is not Mixer.reference

    def torch(self, sizes: Sizes) -> Any:
        """An nn.Module, or a function (p, x, padding_mask, causal) -> y, in PyTorch."""
        raise NotImplementedError

    def jax(self, sizes: Sizes) -> Any:
        """An nnx.Module, or a function (p, x, padding_mask, causal) -> y, in JAX."""
        raise NotImplementedError

    @property
    def notation(self) -> str:
        """The canonical notation, which parses back to this mixer."""
        from synthbench.mixers.notation import format_mixer

        return format_mixer(self)


def declared_by(mixer: Mixer, sizes: Sizes) -> dict[str, Parameter]:
    """What `mixer.parameters` declares; NotationError where that is no {name: Parameter}."""
    with blamed(type(mixer), "parameters"):
        declared = mixer.parameters(sizes)
    name = type(mixer).__name__
    if not isinstance(declared, Mapping):
        raise NotationError(
            f"{name}.parameters() returns {shown(declared)}; return a dict, parameter name -> "
            "synthbench.Parameter(shape, init), empty if it has none"
        )
    for key, parameter in declared.items():
        if not (isinstance(key, str) and isinstance(parameter, Parameter)):
            raise NotationError(
                f"{name}.parameters() declares {shown(key)} as {shown(parameter)}; declare each "
                "name as synthbench.Parameter(shape, init)"
            )
    return dict(declared)


def flops_of(mixer: Mixer, sizes: Sizes, *, batch: int, seq_len: int) -> int | None:
    """What `mixer.flops` counts; NotationError where that is neither a whole number nor None."""
    with blamed(type(mixer), "flops"):
        flops: Any = mixer.flops(sizes, batch=batch, seq_len=seq_len)
    if flops is None:
        return None
    if isinstance(flops, float) and flops.is_integer():  # as a division by 2 or so makes them
        return int(flops)
    try:
        return operator.index(flops)
    except TypeError:
        raise NotationError(
            f"{type(mixer).__name__}.flops() returns {shown(flops)}; return a whole number, or "
            "None where there is no formula"
        ) from None


def cost(mixer: Mixer, sizes: Sizes, *, batch: int, seq_len: int) -> Cost:
    """Count a mixer's parameters from their declaration, and its FLOPs from its formula.

    Raises ShapeError for a batch or length that is no whole number of at least 1.
    """
    batch, seq_len = whole("batch", batch), whole("seq_len", seq_len)
    checked(mixer, sizes)
    sizes.require_length(seq_len)
    declared = declared_by(mixer, sizes).values()
    return Cost(
        parameters=sum(p.size for p in declared if p.trainable),
        constants=sum(p.size for p in declared if not p.trainable),
        flops=flops_of(mixer, sizes, batch=batch, seq_len=seq_len),
    )


def require_output(
    mixer: Mixer, framework: str, output: Any, shape: tuple[int, ...], dtype: Any = None
) -> None:
    """Raise SynthbenchError unless an output has this shape and, where one is given, this type."""
    got, got_type = getattr(output, "shape", None), getattr(output, "dtype", None)
    if got is None or tuple(got) != shape or (dtype is not None and got_type != dtype):
        what = f"a {type(output).__name__}" if got is None else f"shape {tuple(got)} in {got_type}"
        wanted = f"shape {shape}" if dtype is None else f"shape {shape} in {dtype}"
        raise SynthbenchError(
            f"{mixer.notation} in {framework} gives an output of {what}; expected {wanted}: a "
            "mixer gives back the shape and type of x"
        )
