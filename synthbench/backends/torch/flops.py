"""FLOPs of a PyTorch program, 2 for each multiply-accumulate of a matrix product or convolution.

fvcore traces a forward pass and counts it with this package's handles. A training step runs under
torch's own FlopCounterMode, with formulas for the operations that it does not count.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from synthbench.backends.base import TracedFlops
from synthbench.backends.torch.contractions import HANDLES
from synthbench.backends.torch.flop_formulas import FORMULAS
from synthbench.backends.torch.free_operations import is_free
from synthbench.backends.torch.placement import is_accelerator
from synthbench.backends.torch.private_api import (
    TorchDispatchMode,
    hooks_of,
    tree_flatten,
    tree_leaves,
    tree_unflatten,
)


def trace_forward(module: nn.Module, args: tuple[Any, ...]) -> TracedFlops:
    """Count one forward pass of `module(*args)` by tracing it; the module does not change.

    Products that no output depends on are not counted. `uncounted` lists the operations that no
    handle covers and that are not known to be free.
    """
    module = getattr(module, "_orig_mod", module)  # the module that torch.compile wraps
    leaves, structure = tree_flatten(args)
    with _quiet(), _no_fast_path(), torch.no_grad(), _unchanged(module, leaves):
        from fvcore.nn import FlopCountAnalysis

        call = _Call(module, leaves, structure)
        analysis = FlopCountAnalysis(call, tuple(x for x in leaves if _is_tensor(x)))
        analysis.clear_op_handles().set_op_handle(**HANDLES)
        analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
        products = analysis.total()
    unknown = analysis.unsupported_ops()
    return TracedFlops(
        tool="fvcore",
        flops=2 * int(products),
        uncounted={name: times for name, times in unknown.items() if not is_free(name)},
    )


def trace_step(step: Callable[[], object]) -> TracedFlops:
    """Count what one call of `step` runs (forward, backward, optimizer).

    The step runs once, eagerly even if it is compiled, with all its effects. The backward pass of a
    fused attention counts five products, as in torch: it recomputes the weights. An einsum that
    torch runs as an elementwise product (it contracts only axes of size 1) is free. `uncounted` is
    as in `trace_forward`.
    """
    counter = FlopCounterMode(display=False, custom_mapping=FORMULAS)
    with _eager(), _no_fast_path(), _Operations() as run, counter:
        step()
    unknown = {
        name: times
        for (packet, name), times in run.times.items()
        if packet not in counter.flop_registry and not is_free(name)
    }
    return TracedFlops(
        tool="torch FlopCounterMode", flops=int(counter.get_total_flops()), uncounted=unknown
    )


class _Call(nn.Module):
    """The traced call: tensors in `args` are its inputs, everything else in `args` is fixed."""

    def __init__(self, module: nn.Module, leaves: list[Any], structure: Any) -> None:
        super().__init__()
        self.module = module
        self.fixed = [None if _is_tensor(x) else x for x in leaves]
        self.positions = [n for n, x in enumerate(leaves) if _is_tensor(x)]
        self.structure = structure

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = list(self.fixed)
        for position, tensor in zip(self.positions, tensors, strict=True):
            leaves[position] = tensor
        produced = self.module(*tree_unflatten(leaves, self.structure))
        return tuple(x for x in tree_leaves(produced) if _is_tensor(x))


class _Operations(TorchDispatchMode):
    """Counts the operations that run, by packet and `namespace::name`."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.times: Counter[tuple[Any, str]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = getattr(func, "overloadpacket", func)
        name = func.name() if callable(getattr(func, "name", None)) else str(func)
        self.times[packet, name.split(".")[0]] += 1
        return func(*args, **(kwargs or {}))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide torch.jit's warnings of tracing: the trace is only counted, never run."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
        for category in (DeprecationWarning, FutureWarning):  # before and since torch 2.15
            warnings.filterwarnings("ignore", r"`torch\.jit\.", category=category)
        yield


@contextmanager
def _eager() -> Iterator[None]:
    """In this block, functions compiled by torch.compile run eagerly, so that they are counted."""
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and importing it takes long
        yield
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Using `torch\.compile\(module\)` when there are")
        yield


@contextmanager
def _no_fast_path() -> Iterator[None]:
    """In this block, torch's attention layers run as products, not as one kernel."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _unchanged(module: nn.Module, leaves: list[Any]) -> Iterator[None]:
    """Restore what a forward pass changes: hooks, random state, statistics of batch norms."""
    tensors = [x for x in leaves if _is_tensor(x)] + list(module.parameters())
    devices = [x.device for x in tensors if is_accelerator(x.device)]
    kind = devices[0].type if devices else "cuda"  # PyTorch has one kind at a time
    indices = sorted({device.index for device in devices})
    norms = [m for m in module.modules() if getattr(m, "track_running_stats", False)]
    statistics = [(b, b.clone()) for m in norms if m.training for b in m.buffers(recurse=False)]
    hooks = [(table, set(table)) for each in module.modules() for table in hooks_of(each)]
    try:
        with torch.random.fork_rng(devices=indices, device_type=kind):
            yield
    finally:
        for buffer, before in statistics:
            buffer.copy_(before)
        for table, known in hooks:  # fvcore does not remove its own if a forward pass raises
            for added in set(table) - known:
                del table[added]


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
