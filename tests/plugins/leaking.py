"""Mixers that read what a mask hides from them, in both frameworks and in the reference alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from synthbench.errors import UnsupportedError
from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.sizes import Sizes


@dataclass(frozen=True)
class Running(Mixer):
    """Sums of the real positions up to each, or of all: right in every mask."""

    name: ClassVar[str] = "running"
    keeps_padding_out: ClassVar[bool] = True
    looks_ahead: ClassVar[int] = 0  # positions, where it is causal

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}

    def sums(self, xp: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
        if padding_mask is not None and self.keeps_padding_out:
            x = xp.where(padding_mask[..., None], x, 0)
        L, ahead = x.shape[1], self.looks_ahead if causal else x.shape[1]
        kept = np.tri(L, L, ahead)
        return xp.einsum("lm,bmd->bld", xp.asarray(kept, dtype=x.dtype), x)

    def torch(self, sizes: Sizes) -> Any:
        import torch

        return lambda p, x, padding_mask, causal: self.sums(torch, x, padding_mask, causal)

    def jax(self, sizes: Sizes) -> Any:
        import jax.numpy as jnp

        return lambda p, x, padding_mask, causal: self.sums(jnp, x, padding_mask, causal)

    def reference(
        self, p: Any, x: Any, sizes: Sizes, *, padding_mask: Any = None, causal: bool = False
    ) -> Any:
        return self.sums(np, x, padding_mask, causal)


class Padded(Running):
    name = "padded"
    keeps_padding_out = False


class Ahead(Running):
    """Sees one position ahead."""

    name = "ahead"
    looks_ahead = 1


class NotCausal(Ahead):
    """Says that it cannot be causal."""

    name = "not_causal"

    def check(self, sizes: Sizes, *, causal: bool = False) -> None:
        if causal:
            raise UnsupportedError("not causal")


class PaddedAlone(Padded):
    name = "padded_alone"
    reference = Mixer.reference  # none


class AheadAlone(Ahead):
    name = "ahead_alone"
    reference = Mixer.reference


class Transformed(Running):
    """The same sums by FFT, whose rounding errors are everywhere; without a reference."""

    name = "transformed"
    reference = Mixer.reference

    def sums(self, xp: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
        if not causal:
            return super().sums(xp, x, padding_mask, causal)
        if padding_mask is not None:
            x = xp.where(padding_mask[..., None], x, 0)
        L = x.shape[1]
        ones = xp.fft.rfft(xp.ones(L, dtype=x.dtype), 2 * L)
        product = xp.fft.rfft(xp.moveaxis(x, 1, 2), 2 * L) * ones
        return xp.moveaxis(xp.fft.irfft(product, 2 * L), 2, 1)[:, :L]


class OnlyInNumpy(Padded):
    """Keeps padding out in NumPy alone."""

    name = "only_in_numpy"

    def reference(
        self, p: Any, x: Any, sizes: Sizes, *, padding_mask: Any = None, causal: bool = False
    ) -> Any:
        return Running().sums(np, x, padding_mask, causal)
