"""Every use of what PyTorch does not promise to keep, each with a fallback or a plain error.

A function here that needs the API to be there raises UnsupportedError, which names the API and the
versions that synthbench is tested with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from synthbench.backends.private_api import private_api_error, require_private_api
from synthbench.errors import UnsupportedError

CYCLES_PER_SECOND = 2e9  # of a GPU's clock, at most
FAKE_TENSORS = "torch._subclasses.fake_tensor"
DISPATCH = "torch.utils._python_dispatch"
TREES = "torch.utils._pytree"
FOLLOW = "follow the operations of a step"


def linear_pointwise(left: Tensor, right: Tensor) -> Tensor:
    """left [m,k] times right [k,n] by oneDNN; call it only if `has_linear_pointwise`."""
    made: Tensor = torch.ops.mkldnn._linear_pointwise(left, right.mT, None, "none", [], "")
    return made


def has_linear_pointwise() -> bool:
    """Whether `linear_pointwise` is there and multiplies; tested on two small matrices."""
    left, right = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    try:
        return torch.equal(linear_pointwise(left, right), left @ right)
    except Exception:  # no such operator in this build, or with other arguments
        return False


def softmax_backward(d_weights: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
    """The gradient of logits from that of weights = softmax(logits) over the last axis.

    `out`: memory to write it to, which may be that of `d_weights`; None: new memory.
    """
    kernel: Callable[..., Tensor] | None = getattr(torch, "_softmax_backward_data", None)
    if out is not None and not out.is_contiguous():  # it would be filled in the wrong order
        out = None
    if kernel is not None:
        try:
            return kernel(d_weights, weights, -1, weights.dtype, grad_input=out)
        except TypeError:  # it takes other arguments now
            pass
    product = d_weights * weights
    return product - weights * product.sum(-1, keepdim=True)


def is_fake(x: Tensor) -> bool:
    """Whether a tensor has a device and a shape, but no values (FakeTensor)."""
    if type(x) in (Tensor, nn.Parameter):  # the usual case, without a lookup
        return False
    try:
        fake = require_private_api(f"{FAKE_TENSORS}.FakeTensor", "recognize tensors without values")
    except UnsupportedError:  # then `fake_tensors` makes none
        return False
    return isinstance(x, fake)


def fake_tensors() -> AbstractContextManager[Any]:
    """In this block, new tensors have a device and a shape, but no values.

    Tensors with values may take part: a mixer may have constants from its own arrays.
    """
    purpose = "predict the memory of a step"
    mode = require_private_api(f"{FAKE_TENSORS}.FakeTensorMode", purpose)
    entered: AbstractContextManager[Any] = mode(allow_non_fake_inputs=True)
    return entered


def without_modes() -> AbstractContextManager[Any]:
    """In this block, no mode (fake tensors, a counter) sees the operations."""
    purpose = "time a product without a mode around it"
    disabled = require_private_api(f"{DISPATCH}._disable_current_modes", purpose)
    entered: AbstractContextManager[Any] = disabled()
    return entered


def dispatch_mode() -> type[Any]:
    """TorchDispatchMode, or where it is missing a class whose instances cannot be made."""
    try:
        found: type[Any] = require_private_api(f"{DISPATCH}.TorchDispatchMode", FOLLOW)
    except UnsupportedError as missing:
        text = str(missing)

        class Missing:
            def __init__(self) -> None:
                raise UnsupportedError(text)

        return Missing
    return found


if TYPE_CHECKING:
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
else:
    TorchDispatchMode = dispatch_mode()


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of nested lists, tuples and dicts, and the structure to put them back."""
    leaves, structure = require_private_api(f"{TREES}.tree_flatten", FOLLOW)(tree)
    return leaves, structure


def tree_unflatten(leaves: list[Any], structure: Any) -> Any:
    """The reverse of `tree_flatten`."""
    return require_private_api(f"{TREES}.tree_unflatten", FOLLOW)(leaves, structure)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of nested lists, tuples and dicts."""
    leaves: list[Any] = require_private_api(f"{TREES}.tree_leaves", FOLLOW)(tree)
    return leaves


def storage_address(storage: torch.UntypedStorage) -> int:
    """A number for a storage, the same as that of its `storage_reference`."""
    address: int | None = getattr(storage, "_cdata", None)
    if address is None:
        raise private_api_error("torch.UntypedStorage._cdata", FOLLOW)
    return address


def storage_reference(storage: torch.UntypedStorage) -> Any:
    """A weak reference to a storage: `.cdata`, its address, and `.expired()`."""
    path = "torch.multiprocessing.reductions.StorageWeakRef"
    return require_private_api(path, FOLLOW)(storage)


def change_count(x: Tensor) -> int | None:
    """How often a tensor was changed in place; None if PyTorch does not count it."""
    count: int | None = getattr(x, "_version", None)
    return count


def is_view(x: Tensor) -> bool:
    """Whether autograd knows a tensor as a view of another; True if PyTorch does not say."""
    check: Callable[[], bool] | None = getattr(x, "_is_view", None)
    return True if check is None else check()


def hooks_of(module: nn.Module) -> list[dict[Any, Any]]:
    """The tables of a module's forward hooks; those that PyTorch still has."""
    tables = (getattr(module, name, None) for name in ("_forward_hooks", "_forward_pre_hooks"))
    return [table for table in tables if isinstance(table, dict)]


def aten_operation(name: str) -> Any | None:
    """An operation of torch.ops.aten; None if this version has none of that name."""
    return getattr(torch.ops.aten, name, None)


@contextmanager
def many_compilations(count: int) -> Iterator[None]:
    """In this block, torch.compile compiles a function for up to so many kinds of inputs.

    Where PyTorch has no such setting, in as many as it allows by itself.
    """
    try:
        config = require_private_api("torch._dynamo.config", "compile for many shapes")
    except UnsupportedError:
        yield
        return
    before: int | None = getattr(config, "recompile_limit", None)
    if before is None or before >= count:
        yield
        return
    config.recompile_limit = count
    try:
        yield
    finally:
        config.recompile_limit = before


def keep_device_busy(seconds: float) -> bool:
    """Queue a kernel that does nothing for about so long on this CUDA device; False without it."""
    sleep: Callable[[int], None] | None = getattr(torch.cuda, "_sleep", None)
    if sleep is None:
        return False
    sleep(int(seconds * CYCLES_PER_SECOND))
    return True
