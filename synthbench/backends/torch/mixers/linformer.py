"""Linformer in PyTorch; the equation is in synthbench/mixers/linformer.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from synthbench.backends.kernel_choice import choose
from synthbench.backends.kernel_record import REFERENCE_KERNEL
from synthbench.backends.torch.cpu_matmul import libraries, product_of
from synthbench.backends.torch.mixers.numerics import project, record_kernel, softmax, zero_padded
from synthbench.kernel import Kernel
from synthbench.mixers.linformer import Linformer

FLASH = "scaled_dot_product_attention"


def reference(
    mixer: Linformer,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """softmax(Q K'^T / sqrt(k)) V', then the output map."""
    L = x.shape[1]
    query = project(x, p["query"])
    key = zero_padded(project(x, p["key"]), padding_mask)
    value = zero_padded(project(x, p["value"]), padding_mask)
    key = torch.einsum("bmhk,mr->brhk", key, p["key_projection"][:L])
    value = torch.einsum("bmhk,mr->brhk", value, p[mixer.value_projection_name][:L])
    logits = torch.einsum("blhk,brhk->bhlr", query * query.shape[-1] ** -0.5, key)
    heads = torch.einsum("bhlr,brhk->blhk", softmax(logits, axis=-1), value)
    return torch.einsum("blhk,hkd->bld", heads, p["output"])


def fused(
    mixer: Linformer,
    p: dict[str, Tensor],
    x: Tensor,
    padding_mask: Tensor | None,
    causal: bool,
) -> Tensor:
    """The same; X is compressed along length before it is projected to keys and values.

    The two commute, and this way r rows are projected instead of L. Where that takes more
    multiplications, it is the reference form.
    """
    L, (d, H, k) = x.shape[1], p["key"].shape
    plain = Kernel(REFERENCE_KERNEL)
    others = [Kernel(FLASH, products) for products in libraries(x)]
    compresses = mixer.compresses_first(d, H * k, L)
    chosen = choose([*others, plain] if compresses else [plain, *others])
    if chosen.path == REFERENCE_KERNEL:
        record_kernel(REFERENCE_KERNEL)
        return reference(mixer, p, x, padding_mask, causal)
    times = product_of(chosen.products)
    record_kernel(FLASH)
    real = zero_padded(x, padding_mask)
    for_keys = p["key_projection"][:L].T @ real  # [B,r,d]
    for_values = for_keys
    if mixer.value_projection_name != "key_projection":
        for_values = p[mixer.value_projection_name][:L].T @ real
    query, key, value = (
        project(source, p[name], times=times).swapaxes(1, 2)
        for source, name in ((x, "query"), (for_keys, "key"), (for_values, "value"))
    )
    heads = F.scaled_dot_product_attention(query, key, value).swapaxes(1, 2)
    return times(heads.flatten(2), p["output"].flatten(0, 1))
