"""Linformer (Wang et al. 2020, eq. 7): keys and values compressed along length from L to r."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthbench.errors import UnsupportedError
from synthbench.mixers.attention import project, softmax
from synthbench.mixers.base import Array, Mixer, Parameter, Tensors
from synthbench.mixers.convolution import zero_padded
from synthbench.mixers.initializers import xavier
from synthbench.mixers.sizes import Sizes
from synthbench.mixers.state import StateArray
from synthbench.mixers.validation import require_choice, require_positive


@dataclass(frozen=True)
class Linformer(Mixer):
    """softmax(Q K'^T / sqrt(k)) V', with K' and V' the keys and values projected to r positions."""

    name: ClassVar[str] = "linformer"
    equation: ClassVar[str] = (
        "Y = softmax(Q K'^T / sqrt(k)) V' output;  "
        "K' = key_projection[:L]^T X key, V' = value_projection[:L]^T X value"
    )
    source: ClassVar[str] = "Wang et al. 2020 (arXiv 2006.04768), eq. 7"
    # If keys and values are compressed before they are projected, only r positions are projected.
    needed_share: ClassVar[float] = 0.5

    rank: int = 32
    sharing: str = "none"  # none, or kv: one projection for keys and values

    def __post_init__(self) -> None:
        require_positive(self.name, rank=self.rank)
        require_choice(self.name, "sharing", self.sharing, ("none", "kv"))

    def check(self, sizes: Sizes, *, causal: bool = False) -> None:
        if causal:
            raise UnsupportedError(
                "linformer cannot be causal: every compressed key mixes all positions, later ones "
                "too; use it in an encoder, or another mixer here"
            )

    @property
    def value_projection_name(self) -> str:
        """The parameter that compresses the values: its own, or the keys'."""
        return "key_projection" if self.sharing == "kv" else "value_projection"

    def compresses_first(self, d_model: int, channels: int, seq_len: int) -> bool:
        """Whether X is better compressed along length before it is projected to keys and values.

        The two commute; what takes fewer multiplications is better. `channels`: of all heads.
        """
        L, d, c, r = seq_len, d_model, channels, self.rank
        compressions_of_x = 1 if self.sharing == "kv" else 2
        return compressions_of_x * r * L * d + 2 * r * d * c <= 2 * L * d * c + 2 * r * L * c

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        d, H, k, N, r = sizes.d_model, sizes.heads, sizes.head_dim, sizes.max_len, self.rank
        inward = Parameter((d, H, k), xavier(d, H * k))
        compress = Parameter((N, r), xavier(N, r))
        return {
            "query": inward,
            "key": inward,
            "value": inward,
            "output": Parameter((H, k, d), xavier(H * k, d)),
            "key_projection": compress,
            self.value_projection_name: compress,
        }

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
        channels = sizes.heads * sizes.head_dim
        projections = 4 * 2 * batch * seq_len * sizes.d_model * channels
        compress = 2 * 2 * batch * seq_len * self.rank * channels
        attend = 2 * 2 * batch * seq_len * self.rank * channels
        return projections + compress + attend

    def state(self, sizes: Sizes) -> dict[str, StateArray] | None:
        self.check(sizes, causal=True)  # raises: there is none
        return None

    def weights(
        self,
        p: Tensors,
        x: Array,
        sizes: Sizes,
        *,
        padding_mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        self.check(sizes, causal=causal)
        query = project(x, p["query"]) * sizes.head_dim**-0.5
        key = zero_padded(project(x, p["key"]), padding_mask)
        compress = p["key_projection"][: x.shape[1]]
        key = np.einsum("bmhk,mr->brhk", key, compress, optimize=True)
        return softmax(np.einsum("blhk,brhk->bhlr", query, key, optimize=True), axis=-1)

    def reference(
        self,
        p: Tensors,
        x: Array,
        sizes: Sizes,
        *,
        padding_mask: Array | None = None,
        causal: bool = False,
    ) -> Array:
        weights = self.weights(p, x, sizes, padding_mask=padding_mask, causal=causal)
        value = zero_padded(project(x, p["value"]), padding_mask)
        compress = p[self.value_projection_name][: x.shape[1]]
        value = np.einsum("bmhk,mr->brhk", value, compress, optimize=True)
        heads = np.einsum("bhlr,brhk->blhk", weights, value, optimize=True)
        return np.einsum("blhk,hkd->bld", heads, p["output"], optimize=True)
