"""Memory of a step of PyTorch from shapes alone: the step is taken on tensors that hold nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from synthbench.backends.base import Batch, MemoryPlan, Setting
from synthbench.backends.torch.model import build_model, form_of
from synthbench.backends.torch.module import DTYPES, from_array
from synthbench.backends.torch.step import TorchStep
from synthbench.mixers.base import Array
from synthbench.models.model import Model


def predict_memory(model: Model, setting: Setting, mode: str, batch: Batch) -> MemoryPlan | None:
    """The storages of an eager step, followed through one step; nothing is allocated.

    None when compiled: a fused program holds fewer. Raises whatever a mixer raises that needs
    values to run.
    """
    if setting.compile == "compiled":
        return None
    try:
        with _DeviceIndependent():
            if torch.device(setting.device).type != "cpu":  # fused forms choose by the device
                raise _DeviceMattersError
            return _plan(model, setting, mode, batch, torch.device("meta"))
    except (_DeviceMattersError, RuntimeError):
        # Ten times as slow, but it takes the kernels of the device, and knows every operation.
        # Constants that a mixer makes from arrays of its own are no fake tensors.
        with FakeTensorMode(allow_non_fake_inputs=True):
            return _plan(model, setting, mode, batch, torch.device(setting.device))


def _plan(
    model: Model, setting: Setting, mode: str, batch: Batch, device: torch.device
) -> MemoryPlan | None:
    step = empty_step(model, setting, mode, batch, device)
    if not step.train or step.constant_count:
        with torch.no_grad():
            step.module(step.inputs, step.padding_mask)  # it makes what is kept between calls
    return step.memory_plan()


def reference_step(model: Model, setting: Setting, mode: str, batch: Batch) -> TorchStep:
    """An eager step of the reference form on tensors that hold nothing: its FLOPs are the mixer's.

    What the kernels of a fused form do more (padded heads, weights made twice) or less (what a
    causal mask hides) is left to its speed.
    """
    plain = replace(setting, form="reference", compile="eager")
    return empty_step(model, plain, mode, batch, torch.device("meta"))


def empty_step(
    model: Model, setting: Setting, mode: str, batch: Batch, device: torch.device
) -> TorchStep:
    """A step whose tensors have shapes and no values; Adam's state is there."""
    dtype = DTYPES[setting.dtype]
    module = build_model(model, setting.form, dtype=dtype, device=device)
    form = form_of(model.mixer, setting.form)
    step = TorchStep(module, mode, setting, *_empty(batch, dtype, device), form)
    if step.optimizer is not None:
        made: Any = _MadeAdam(module)
        step.optimizer = made
    return step


class _MadeAdam:
    """Adam after its first step: its state is there, and its fused step takes nothing more."""

    def __init__(self, module: nn.Module) -> None:
        self.state = {
            p: {
                "step": torch.empty((), dtype=torch.float32, device=p.device),
                "exp_avg": torch.empty_like(p),
                "exp_avg_sq": torch.empty_like(p),
            }
            for p in module.parameters()
        }

    def step(self) -> None:
        """Nothing that memory would show."""


class _DeviceMattersError(Exception):
    """An operation whose kernel, and so its memory, depends on the device."""


class _DeviceIndependent(TorchFunctionMode):
    """Ends a step at the first operation that chooses its kernel by the device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            raise _DeviceMattersError
        return func(*args, **(kwargs or {}))


def _empty(
    batch: Batch, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Inputs, targets and padding mask of a batch's shapes and a cell's type."""

    def like(array: Array) -> Tensor:
        own = from_array(array[:0]).dtype
        wanted = dtype if own.is_floating_point else own
        return torch.empty(array.shape, dtype=wanted, device=device)

    mask = batch.padding_mask
    return like(batch.inputs), like(batch.targets), None if mask is None else like(mask)
