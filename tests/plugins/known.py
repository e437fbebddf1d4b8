"""Mixers whose memory and FLOPs are known beforehand, in both frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from synthbench.mixers.base import Mixer, Parameter
from synthbench.mixers.initializers import Normal
from synthbench.mixers.sizes import Sizes

FLOAT_BYTES = 4
TILE_SIZES = 4  # of a loop that XLA neither unrolls nor takes for a constant


@dataclass(frozen=True)
class Holder(Mixer):
    """Returns its input, after it has held this many megabytes (10^6 bytes) at once."""

    name: ClassVar[str] = "holder"
    megabytes: int = 64

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        return {}

    @property
    def elements(self) -> int:
        return self.megabytes * 10**6 // FLOAT_BYTES

    def torch(self, sizes: Sizes) -> Any:
        import torch

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            return x + 0 * torch.ones(self.elements, dtype=torch.float32).sum()

        return forward

    def jax(self, sizes: Sizes) -> Any:
        import jax
        import jax.numpy as jnp

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            held = jnp.broadcast_to(x.sum(), (self.elements,))
            held = jax.lax.fori_loop(0, TILE_SIZES, lambda _, block: block + x[0, 0, 0], held)
            return x + 0 * held.min()

        return forward


@dataclass(frozen=True)
class Repeated(Mixer):
    """X W .. W, `times` products one after the other, by a loop in torch and a scan in jax."""

    name: ClassVar[str] = "repeated"
    times: int = 7

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        d = sizes.d_model
        return {"weight": Parameter((d, d), Normal(d**-0.5))}

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
        return self.times * 2 * batch * seq_len * sizes.d_model**2

    def torch(self, sizes: Sizes) -> Any:
        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            for _ in range(self.times):
                x = x @ p["weight"]
            return x

        return forward

    def jax(self, sizes: Sizes) -> Any:
        import jax

        def forward(p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
            def product(carry: Any, _: None) -> Any:
                return carry @ p["weight"], None

            return jax.lax.scan(product, x, None, length=self.times)[0]

        return forward
