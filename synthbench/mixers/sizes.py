"""The sizes that a mixer is built for.

Shape legend, here and in every mixer: B batch, L length of this batch, N `max_len`, d `d_model`,
H heads, k `head_dim`, r rank, K width of a kernel. Einsum letters follow it: b l m d h k n r,
with l the query (output) position and m the key (input) position.
"""

from __future__ import annotations

from dataclasses import dataclass

from synthbench.errors import ShapeError
from synthbench.mixers.validation import divisors, require_integer, shorten_list


@dataclass(frozen=True)
class Sizes:
    """The sizes a mixer is built for: d_model d, heads H, head_dim k, max_len N."""

    d_model: int
    heads: int
    head_dim: int
    max_len: int

    @classmethod
    def of(cls, *, d_model: int, heads: int, max_len: int, head_dim: int | None = None) -> Sizes:
        """Fill in `head_dim` = d_model / heads if it is not given.

        Raises ShapeError for a size that is not an integer of at least 1, or heads that do not
        divide d_model.
        """
        d_model, heads = require_integer("d_model", d_model), require_integer("heads", heads)
        max_len = require_integer("max_len", max_len)
        if head_dim is None:
            require_divisible(d_model, heads, or_else=", or give head_dim")
            head_dim = d_model // heads
        return cls(d_model, heads, require_integer("head_dim", head_dim), max_len)

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


def require_divisible(d_model: int, heads: int, or_else: str = "", what: str = "heads") -> None:
    """Raise ShapeError, with the counts that are possible, unless heads divide d_model."""
    if d_model % heads:
        raise ShapeError(
            f"d_model {d_model} is not divisible by {what} {heads}; "
            f"use {what} in {shorten_list(divisors(d_model))}{or_else}"
        )
