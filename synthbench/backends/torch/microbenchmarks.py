"""Single operations in PyTorch: the best rate of a device, and the time of dispatch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from synthbench.backends.torch.cpu_matmul import ONEDNN, libraries, multiply
from synthbench.backends.torch.module import DTYPES
from synthbench.backends.torch.placement import find_device, synchronize
from synthbench.backends.torch.precision import full_precision


class TorchOperation:
    """One operation on tensors that exist already; see `Operation` in backends/base.py."""

    def __init__(self, function: Callable[[], Tensor], device: str) -> None:
        self.function = function
        self.device = find_device(device)

    def compile(self) -> None:
        """Do nothing: it is eager."""

    def keep(self, file: Path, kernels: Sequence[str]) -> None:
        """Keep nothing: there is no program."""

    def load(self, file: Path) -> bool:
        """There is never a kept program."""
        return False

    def __call__(self) -> Tensor:
        """Start the operation and return its result."""
        with torch.no_grad():
            return self.function()

    def wait(self, produced: object) -> None:
        """Block until the device has finished."""
        synchronize(self.device)


def matrix_products(dtype: str, device: str, size: int) -> list[TorchOperation]:
    """A [size,size] by [size,size] product, by each library where there are two."""
    full_precision()
    place = find_device(device)
    a = torch.rand(size, size, device=place).to(DTYPES[dtype])
    b = torch.rand(size, size, device=place).to(DTYPES[dtype])
    out = torch.empty_like(a)
    made = [TorchOperation(lambda: torch.matmul(a, b, out=out), device)]
    if ONEDNN in libraries(a):
        made.append(TorchOperation(lambda: multiply(a, b), device))
    return made


def copy(dtype: str, device: str, elements: int) -> TorchOperation:
    """A copy of `elements` values into memory that is allocated already."""
    source = torch.ones(elements, dtype=DTYPES[dtype], device=find_device(device))
    target = torch.zeros_like(source)
    return TorchOperation(lambda: target.copy_(source), device)


def smallest_step(device: str) -> TorchOperation:
    """One addition to one number."""
    x = torch.zeros(1, device=find_device(device))
    return TorchOperation(lambda: x + 1, device)
