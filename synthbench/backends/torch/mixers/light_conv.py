"""Lightweight convolution in PyTorch; the equation is in synthbench/mixers/light_conv.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from synthbench.backends.kernel_choice import choose
from synthbench.backends.torch.cpu_matmul import libraries, product_of
from synthbench.backends.torch.mixers import head_convolution
from synthbench.backends.torch.mixers.compiled import can_compile
from synthbench.backends.torch.mixers.numerics import (
    ForwardInputs,
    Times,
    add_bias,
    affine,
    convolve,
    glu,
    record_kernel,
    softmax,
    split_heads,
    zero_padded,
)
from synthbench.backends.torch.mixers.past import StepInputs
from synthbench.backends.torch.placement import is_accelerator
from synthbench.kernel import Kernel
from synthbench.mixers.light_conv import GatedConvolution, LightConv


def reference(
    mixer: LightConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """GLU, a depthwise convolution with softmax(kernel), then the output map."""
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"))), padding_mask)
    return output(p, grouped(u, softmax(p["kernel"], axis=-1), causal))


def fused(
    mixer: LightConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same; the convolution is a sum of shifts, or banded products, if that is faster."""
    chosen = choose(kernels(mixer, p, x))
    times = product_of(chosen.products)
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"), times)), padding_mask)
    record_kernel(chosen.path)
    return output(p, CONVOLUTIONS[chosen.path](u, softmax(p["kernel"], axis=-1), causal), times)


def kernels(mixer: LightConv, p: dict[str, Tensor], x: Tensor) -> list[Kernel]:
    """The kernels for inputs like x, the one to take without a measurement first."""
    channels = x.shape[-1] // p["kernel"].shape[0]
    grouped, shifted, banded, compiled = CONVOLUTIONS
    if is_accelerator(x.device):
        paths = [grouped, banded, *([compiled] if can_compile(x) else [])]
    elif mixer.width <= head_convolution.WIDEST_SHIFTED:
        paths = [shifted, banded, grouped]
    elif channels >= head_convolution.LEAST_CHANNELS:
        paths = [banded, grouped]
    else:
        paths = [grouped, banded]
    return [Kernel(path, products) for products in libraries(x) for path in paths]


def grouped(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [H,K] -> [B,L,d], as a convolution with d groups."""
    d = u.shape[-1]
    by_channel = kernel.repeat_interleave(d // kernel.shape[0], dim=0)  # [d,K]
    return convolve(u, by_channel.T[:, None, :], causal, groups=d)


CONVOLUTIONS: dict[str, Callable[[Tensor, Tensor, bool], Tensor]] = {
    "grouped convolution": grouped,
    "shifted sums": head_convolution.shifted_sums,
    "banded products": head_convolution.banded_products,
    "shifted sums, compiled": head_convolution.compiled_sums,
}


def output(p: dict[str, Tensor], y: Tensor, times: Times = torch.matmul) -> Tensor:
    """What follows the convolution: its bias, the pointwise map (layout mesh), the output map."""
    y = add_bias(y, p.get("kernel_bias"))
    if "pointwise" in p:
        y = affine(y, p["pointwise"], p["pointwise_bias"], times)
    return affine(y, p["output"], p.get("output_bias"), times)


def kept(mixer: GatedConvolution, inputs: ForwardInputs) -> dict[str, Tensor]:
    """What decoding keeps of each position: U = GLU(X input) [B,L,d]."""
    u = glu(affine(inputs.x, inputs.p["input"], inputs.p.get("input_bias")))
    return {"gated": u}


def step(mixer: LightConv, inputs: StepInputs) -> Tensor:
    """Y [B,1,d] of one position; X [B,1,d]."""
    kernel = softmax(inputs.p["kernel"], axis=-1)
    window = inputs.slide("gated", kept(mixer, inputs)["gated"])
    y = torch.einsum("bwhc,hw->bhc", split_heads(window, kernel.shape[0]), kernel)
    return output(inputs.p, y.reshape(inputs.x.shape))
