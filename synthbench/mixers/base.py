"""What a mixer is, with no framework imported: sizes, declared parameters, cost, reference.

Shape legend, here and in every mixer: B batch, L length of this batch, N `max_len`, d `d_model`,
H heads, k `head_dim`, r rank, K width of a kernel. Einsum letters follow it: b l m d h k n r,
with l the query (output) position and m the key (input) position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthbench.errors import ShapeError, UnsupportedError

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

        Raises ShapeError for a size below 1, or heads that do not divide d_model.
        """
        given = {"d_model": d_model, "heads": heads, "max_len": max_len, "head_dim": head_dim}
        for name, value in given.items():
            if value is not None and value < 1:
                raise ShapeError(f"{name} is {value}; it must be at least 1")
        if head_dim is None:
            require_divisible(d_model, heads, or_else=", or give head_dim")
            head_dim = d_model // heads
        return cls(d_model, heads, head_dim, max_len)

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
        fits = ", ".join(str(h) for h in range(1, d_model + 1) if d_model % h == 0)
        raise ShapeError(
            f"d_model {d_model} is not divisible by heads {heads}; use heads in {fits}{or_else}"
        )


@dataclass(frozen=True)
class Parameter:
    """A declared parameter: its shape, how its start value is drawn, whether it is trained."""

    shape: tuple[int, ...]
    init: Initializer
    trainable: bool = True

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))


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


def cost(mixer: Mixer, sizes: Sizes, *, batch: int, seq_len: int) -> Cost:
    """Count a mixer's parameters from their declaration, and its FLOPs from its formula."""
    mixer.check(sizes)
    sizes.require_length(seq_len)
    declared = mixer.parameters(sizes).values()
    return Cost(
        parameters=sum(p.size for p in declared if p.trainable),
        constants=sum(p.size for p in declared if not p.trainable),
        flops=mixer.flops(sizes, batch=batch, seq_len=seq_len),
    )
