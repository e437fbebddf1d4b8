"""What one step of a PyTorch program adds to memory, from the life of every storage it makes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from synthbench.backends.base import MemoryPlan


def plan(step: Callable[[], object], *, resident_bytes: int = 0) -> MemoryPlan:
    """Run `step` once and follow its storages: `temporary_bytes` is the most they held together.

    `resident_bytes` (parameters, optimizer state, batch: what was there before) is added to make
    `peak_bytes`. Run one step before, so that state an optimizer makes in its first step counts
    among the residents. A storage counts once however many views it has, from the operation that
    returns it until its last user lets go; what autograd saves counts while it is saved. Scratch
    that a kernel takes and gives back inside one operation is not seen, nor is what an allocator
    adds. A step on the "meta" device is followed without allocating anything.
    """
    gc.collect()  # a cycle left by earlier work must not end, and free bytes, within this step
    with _Storages() as storages:
        step()
    return MemoryPlan(
        tool="torch storage tracking",
        peak_bytes=resident_bytes + storages.peak,
        temporary_bytes=storages.peak,
    )


class _Storages(TorchDispatchMode):
    """The storages that operations made while this mode was on: bytes held now and at most."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}
        self.held = 0  # may include storages that died since the last sweep
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.OpOverload) and func.namespace != "prim":
            with self:  # in inference mode composite operations arrive whole
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        # torch.tensor(..) hands lift_fresh what it has just made, out of sight of any mode.
        given = () if func is torch.ops.aten.lift_fresh.default else (args, kwargs)
        there = {storage._cdata for storage in _storages(given)}
        produced = func(*args, **kwargs)
        for storage in _storages(produced):
            reference = StorageWeakRef(storage)
            known = self.made.get(reference.cdata)
            if known is not None or reference.cdata not in there:
                size = storage.nbytes()
                self.held += size - (known[1] if known is not None else 0)
                self.made[reference.cdata] = (reference, size)
        if self.held > self.peak:
            self._sweep()
            self.peak = max(self.peak, self.held)
        return produced

    def _sweep(self) -> None:
        for address, (reference, size) in list(self.made.items()):
            if reference.expired():
                del self.made[address]
                self.held -= size


def _storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield leaf.untyped_storage()
