"""Dynamic convolution (Wu et al. 2019, section 4): each position predicts its own kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthbench.mixers.attention import softmax
from synthbench.mixers.base import Array, Parameter, Tensors
from synthbench.mixers.initializers import Uniform
from synthbench.mixers.light_conv import GatedConvolution
from synthbench.mixers.sizes import Sizes


@dataclass(frozen=True)
class DynamicConv(GatedConvolution):
    """Lightweight convolution with kernels [B,L,H,K] made from U at the output position."""

    name: ClassVar[str] = "dynamic_conv"
    equation: ClassVar[str] = (
        "U = GLU(X input);  Y[t] = (sum_j softmax(U[t] generator)[j] U[t - P + j]) output"
    )

    def kernel_parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        d, H, K = sizes.d_model, self.groups(sizes), self.width
        return {"generator": Parameter((d, H, K), Uniform(d**-0.5))}

    def kernel(self, p: Tensors, u: Array) -> Array:
        return softmax(np.einsum("bld,dhw->blhw", u, p["generator"], optimize=True), axis=-1)

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int:
        generator = sizes.d_model * self.groups(sizes) * self.width
        return super().flops(sizes, batch=batch, seq_len=seq_len) + 2 * batch * seq_len * generator
