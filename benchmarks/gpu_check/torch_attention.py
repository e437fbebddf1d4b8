"""PyTorch's fused attention alone: each of its kernels on the shapes that forms give it.

Values and gradients are compared with float64 on the CPU. The shapes: short, just beyond a tile,
and longer ones; heads of 8, 72 and 128 channels; keys with batch stride 0, as D has them; a last
feature of -1e30 at padded keys, which is how forms hide them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from benchmarks.gpu_check.finding import ABSENT, Finding, Found, Settings, tried

STEP = "torch_attention"
LENGTHS = (9, 114, 704, 1024)
SIZES = (8, 72, 128)
HIDDEN = -1e30
BATCH, HEADS = 2, 4
TOLERANCE = 0.03  # of the largest value, in bfloat16


class Shape(NamedTuple):
    """One call."""

    seq_len: int
    size: int
    shared_keys: bool
    padded: bool

    @property
    def name(self) -> str:
        words = [f"L {self.seq_len}", f"size {self.size}"]
        words += ["keys with batch stride 0"] * self.shared_keys
        words += ["padding as a feature"] * self.padded
        return ", ".join(words)


def run(settings: Settings) -> Iterator[Finding]:
    """Every kernel on every shape; one line per kernel for those that are refused alike."""
    import torch
    from torch.nn.attention import SDPBackend

    lengths, sizes = (LENGTHS[:2], SIZES[:2]) if settings.small else (LENGTHS, SIZES)
    shapes = [
        Shape(*values) for values in itertools.product(lengths, sizes, (False, True), (False, True))
    ]
    kernels = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
    if settings.is_cuda:
        kernels += [SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
        figure = f"{torch.backends.cudnn.version()}, {torch.cuda.get_device_capability()}"
        yield Finding(STEP, "cuDNN version and compute capability", figure=figure)
        yield tried(STEP, "the kernel that PyTorch prefers", partial(preferred, settings.device))
    for kernel in kernels:
        found = [
            tried(STEP, f"{kernel.name}, {shape.name}", partial(one, settings, kernel, shape))
            for shape in shapes
        ]
        refused = [f for f in found if "No available kernel" in f.reason]
        yield from (f for f in found if f not in refused)
        if refused:
            names = "; ".join(f.branch.partition(", ")[2] for f in refused)
            yield Finding(STEP, f"{kernel.name} refuses {len(refused)}", ABSENT, reason=names)


def preferred(device: str) -> Found:
    """Which kernel runs where nothing is asked for, from the names that the profiler sees."""
    import torch
    import torch.nn.functional as F
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(2, 8, 1024, 64, device=device, dtype=torch.bfloat16)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        F.scaled_dot_product_attention(x, x, x)
        torch.cuda.synchronize()
    return None, "; ".join(sorted({event.key for event in seen.key_averages()}))[:300]


def one(settings: Settings, kernel: Any, shape: Shape) -> Found:
    """The largest errors of outputs and gradients, over the largest value of each."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import sdpa_kernel

    torch.manual_seed(0)
    L, k = shape.seq_len, shape.size
    exact = [torch.randn(BATCH, HEADS, L, k, dtype=torch.float64) for _ in range(3)]
    exact[1] = exact[1][: 1 if shape.shared_keys else BATCH]
    exact = [t.bfloat16().double() for t in exact]
    dy = torch.randn(BATCH, HEADS, L, k).bfloat16()
    seen = torch.arange(L) < max(1, (2 * L) // 3)

    def gradients(device: str, dtype: Any) -> list[Any]:
        query, key, value = (t.to(device, dtype).requires_grad_() for t in exact)
        q, keys = query / k**0.5, key.expand(BATCH, -1, -1, -1)
        if shape.padded:
            hidden = torch.where(seen, 0.0, HIDDEN).to(device, dtype)[:, None]
            keys = torch.cat([keys, hidden.expand(BATCH, HEADS, L, 1)], -1)
            q = torch.cat([q, q.new_ones(BATCH, HEADS, L, 1)], -1)
            width = -(-(k + 1) // 8) * 8 - k
            q, keys = F.pad(q, (0, width - 1)), F.pad(keys, (0, width - 1))
        wide = F.pad(value, (0, q.shape[-1] - k))
        y = F.scaled_dot_product_attention(q, keys, wide, scale=1.0)[..., :k]
        return [y, *torch.autograd.grad(y, (query, key, value), dy.to(device, dtype))]

    want = gradients("cpu", torch.float64)
    with sdpa_kernel([kernel]):
        got = gradients(settings.device, torch.bfloat16)
    errors = [
        float((g.detach().cpu().double() - w.detach()).abs().max() / w.detach().abs().max())
        for g, w in zip(got, want, strict=True)
    ]
    names = ("outputs", "queries", "keys", "values")
    figure = ", ".join(f"{name} {error:.1e}" for name, error in zip(names, errors, strict=True))
    return all(error <= TOLERANCE for error in errors), figure  # false for NaN
