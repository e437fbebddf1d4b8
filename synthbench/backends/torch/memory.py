"""What one step of a PyTorch program adds to memory, from the lifetime of each storage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import torch

from synthbench.backends.base import MemoryPlan
from synthbench.backends.torch.private_api import (
    TorchDispatchMode,
    storage_address,
    storage_reference,
    tree_leaves,
)

OpOverload = type(torch.ops.aten.clone.default)


def plan(step: Callable[[], object], *, resident_bytes: int = 0) -> MemoryPlan:
    """Run `step` once and follow its storages: `temporary_bytes` is their largest total.

    `peak_bytes` also includes `resident_bytes`: parameters, optimizer state and batch, which were
    allocated before. Run one step before this one, so that the state that an optimizer creates in
    its first step counts as resident. A storage counts once, however many views it has, from the
    operation that returns it until it is freed; so do tensors that autograd saves. Not included:
    scratch memory that a kernel allocates and frees within one operation, and what an allocator
    adds. A step on the "meta" device allocates nothing and is followed all the same.
    """
    gc.collect()  # garbage of earlier work must not be freed within this step
    with _Storages() as storages:
        step()
    return MemoryPlan(
        tool="torch storage tracking",
        peak_bytes=resident_bytes + storages.peak,
        temporary_bytes=storages.peak,
    )


class _Storages(TorchDispatchMode):
    """The storages that operations created in this mode: bytes allocated now, and at the peak."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.created: dict[int, tuple[Any, int]] = {}  # address -> weak reference, bytes
        self.allocated = 0  # may include storages freed since the last `_remove_freed`
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and func.namespace != "prim":
            with self:  # inference mode passes composite operations without splitting them
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        # torch.tensor(..) passes lift_fresh a tensor that no mode saw being created.
        inputs = () if func is torch.ops.aten.lift_fresh.default else (args, kwargs)
        existing = {storage_address(storage) for storage in _storages(inputs)}
        produced = func(*args, **kwargs)
        for storage in _storages(produced):
            reference = storage_reference(storage)
            known = self.created.get(reference.cdata)
            if known is not None or reference.cdata not in existing:
                size = storage.nbytes()
                self.allocated += size - (known[1] if known is not None else 0)
                self.created[reference.cdata] = (reference, size)
        if self.allocated > self.peak:
            self._remove_freed()
            self.peak = max(self.peak, self.allocated)
        return produced

    def _remove_freed(self) -> None:
        for address, (reference, size) in list(self.created.items()):
            if reference.expired():
                del self.created[address]
                self.allocated -= size


def _storages(tree: Any) -> Iterator[torch.UntypedStorage]:
    for leaf in tree_leaves(tree):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield leaf.untyped_storage()
