"""Ways to count a function's FLOPs, for the tests: torch traced, torch stepped, jax walked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from hypothesis import settings
from torch import nn

from synthbench.backends.base import TracedFlops
from synthbench.backends.jax import flops as jax_flops
from synthbench.backends.torch import flops as torch_flops

B, H, L, M, K, D = 2, 3, 5, 7, 4, 6

quick = settings(deadline=None, max_examples=20, derandomize=True)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def traced(function: Callable[..., Any], *shapes: tuple[int, ...]) -> TracedFlops:
    """A torch forward pass, counted by fvcore."""
    return torch_flops.trace_forward(Function(function), tuple(torch.randn(s) for s in shapes))


def stepped(function: Callable[..., Any], *shapes: tuple[int, ...]) -> TracedFlops:
    """The same call, counted by torch's own counter."""
    tensors = [torch.randn(s) for s in shapes]
    return torch_flops.trace_step(lambda: function(*tensors))


def walked(function: Callable[..., Any], *shapes: tuple[int, ...]) -> TracedFlops:
    """The same in JAX."""
    return jax_flops.trace(function, *(jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes))


def exactly(count: TracedFlops, flops: int) -> bool:
    return count.flops == flops and dict(count.uncounted) == {}
