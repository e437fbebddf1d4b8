"""Dynamic convolution in PyTorch; the equation is in synthbench/mixers/dynamic_conv.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from synthbench.backends.kernel_choice import choose
from synthbench.backends.torch.cpu_matmul import libraries, product_of
from synthbench.backends.torch.mixers import head_convolution
from synthbench.backends.torch.mixers.light_conv import kept, output
from synthbench.backends.torch.mixers.numerics import (
    affine,
    glu,
    record_kernel,
    softmax,
    split_heads,
    windows,
    zero_padded,
)
from synthbench.backends.torch.mixers.past import StepInputs
from synthbench.kernel import Kernel
from synthbench.mixers.dynamic_conv import DynamicConv


def reference(
    mixer: DynamicConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """GLU, a depthwise convolution with softmax(U generator) per position, then the output map."""
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"))), padding_mask)
    return output(p, by_windows(u, generated(u, p["generator"]), causal))


def fused(
    mixer: DynamicConv,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same; banded products avoid an array [B,L,K,d] unless heads have few channels."""
    chosen = choose(kernels(p, x))
    times = product_of(chosen.products)
    u = zero_padded(glu(affine(x, p["input"], p.get("input_bias"), times)), padding_mask)
    record_kernel(chosen.path)
    y = CONVOLUTIONS[chosen.path](u, p["generator"], causal)
    return output(p, y, times)


def kernels(p: dict[str, Tensor], x: Tensor) -> list[Kernel]:
    """The kernels for inputs like x, the one to take without a measurement first."""
    channels = x.shape[-1] // p["generator"].shape[1]
    paths = ["banded products", "shifted products"]
    if channels < head_convolution.LEAST_CHANNELS:
        paths.reverse()
    return [Kernel(path, products) for products in libraries(x) for path in paths]


def generated(u: Tensor, generator: Tensor) -> Tensor:
    """softmax(U generator) [B,L,H,K]."""
    return softmax(torch.einsum("bld,dhw->blhw", u, generator), axis=-1)


def by_windows(u: Tensor, kernel: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels [B,L,H,K] -> [B,L,d], from the window [K] of each output."""
    H, K = kernel.shape[2:]
    window = windows(u, K, causal).reshape(*u.shape[:2], H, -1, K)
    return torch.einsum("blhcw,blhw->blhc", window, kernel).reshape(u.shape)


def banded_products(u: Tensor, generator: Tensor, causal: bool) -> Tensor:
    """U [B,L,d] with kernels made by the generator [d,H,K] -> [B,L,d], as products of blocks."""
    kernel = generated(u, generator)
    return head_convolution.banded_products_by_position(u, kernel, causal)


def shifted_products(u: Tensor, generator: Tensor, causal: bool) -> Tensor:
    """The same as a sum over K of shifted copies of U, each times its weights.

    With K before the channels, whose neighbours are then read and multiplied together. With
    gradients in one product [B,L,K,d]: they would take an array [B,L,d] for each of its K terms.
    In bfloat16 too: its sum is added in float32, the terms one by one would be rounded each time.
    """
    H, K = generator.shape[1:]
    made = torch.einsum("bld,dwh->blwh", u, generator.swapaxes(1, 2))
    kernel = softmax(made, axis=2)[..., None]
    window = windows(u, K, causal).swapaxes(2, 3).unflatten(3, (H, -1))  # [B,L,K,H,c], a view
    if torch.is_grad_enabled() or u.element_size() < 4:
        return (window * kernel).sum(dim=2).flatten(2)
    y = window[:, :, 0] * kernel[:, :, 0]
    for j in range(1, K):
        y.addcmul_(window[:, :, j], kernel[:, :, j])
    return y.flatten(2)


CONVOLUTIONS: dict[str, Callable[[Tensor, Tensor, bool], Tensor]] = {
    "banded products": banded_products,
    "shifted products": shifted_products,
}


def step(mixer: DynamicConv, inputs: StepInputs) -> Tensor:
    """Y [B,1,d] of one position; X [B,1,d]."""
    u = kept(mixer, inputs)["gated"]
    kernel = generated(u, inputs.p["generator"])[:, 0]  # [B,H,K]
    window = inputs.slide("gated", u)
    y = torch.einsum("bwhc,bhw->bhc", split_heads(window, kernel.shape[1]), kernel)
    return output(inputs.p, y.reshape(inputs.x.shape))
