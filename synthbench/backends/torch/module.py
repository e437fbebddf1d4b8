"""Declared parameters held in nn.Modules under their declared names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from synthbench.backends.checks import check_declared, check_trained, require_free
from synthbench.backends.kernel_choice import LookUp, using_kernel
from synthbench.mixers.base import Array, Parameter
from synthbench.mixers.input_arrays import require_input
from synthbench.mixers.sizes import Sizes

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}

Forward = Callable[[dict[str, Tensor], Tensor, Tensor | None, bool], Tensor]


class Declared(nn.Module):
    """Holds declared parameters; a dot in a name makes a submodule, a constant is a buffer."""

    def __init__(self, declared: Mapping[str, Parameter], **factory: Any) -> None:
        super().__init__()
        self._owners: dict[str, tuple[nn.Module, str]] = {}
        for name, parameter in declared.items():
            *path, leaf = name.split(".")
            owner: nn.Module = self
            for part in path:
                if part not in owner._modules:
                    require_free(hasattr(owner, part), part, name, "a torch module")
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
            require_free(hasattr(owner, leaf), leaf, name, "a torch module")
            value = torch.empty(parameter.shape, **factory)
            if parameter.trainable:
                owner.register_parameter(leaf, nn.Parameter(value))
            else:
                owner.register_buffer(leaf, value)
            self._owners[name] = (owner, leaf)

    def tensors(self) -> dict[str, Tensor]:
        """Every declared parameter and constant by its declared name."""
        return {name: getattr(owner, leaf) for name, (owner, leaf) in self._owners.items()}


class MixerModule(Declared):
    """A mixer X [B,L,d] -> Y [B,L,d] whose forward pass is a function of its declared tensors."""

    def __init__(
        self, declared: Mapping[str, Parameter], function: Forward, **factory: Any
    ) -> None:
        super().__init__(declared, **factory)
        self._function = function

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        causal: bool = False,
        position_bias: Tensor | None = None,
    ) -> Tensor:
        p = self.tensors()
        if position_bias is not None:  # of the model around the mixer
            p["position_bias"] = position_bias
        return self._function(p, x, padding_mask, causal)


class FixedCall(nn.Module):
    """Mixed into a mixer's module: called as module(x, padding_mask=None), `causal` is fixed."""

    _fixed: tuple[Sizes, bool, LookUp]

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """X [B,L,d] -> Y [B,L,d]; padding_mask [B,L] is True (or 1) at real tokens.

        Raises ShapeError for an empty batch, another d_model, or a length above max_len.
        """
        sizes, causal, look_up = self._fixed
        require_input(x.shape, None if padding_mask is None else padding_mask.shape, sizes)
        mask = None if padding_mask is None else padding_mask.bool()
        y: Tensor
        if torch.compiler.is_compiling():
            y = super().forward(x, mask, causal)
        else:
            trained = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
            dtype, device = str(x.dtype).removeprefix("torch."), device_name(x.device)
            with using_kernel(look_up(x.shape[0], x.shape[1], dtype, device, trained=trained)):
                y = super().forward(x, mask, causal)
        return y


def device_name(device: torch.device) -> str:
    """A device as suites name it: the first GPU is cuda."""
    return f"{device.type}:{device.index}" if device.index else device.type


class MixerLayer(FixedCall, MixerModule):  # type: ignore[misc]  # a call without causal
    """A mixer as a layer of a user's own model."""


def as_layer(module: nn.Module, sizes: Sizes, causal: bool, look_up: LookUp) -> nn.Module:
    """A mixer's module as users call it; its parameters keep the declared names."""
    own = type(module)
    layer: type[nn.Module] = MixerLayer
    if own is not MixerModule:  # of a plug-in: no module around it, which would change the names
        layer = type(own.__name__, (FixedCall, own), {})
    module.__class__ = layer
    module._fixed = (sizes, causal, look_up)  # type: ignore[assignment]
    return module


def parameters_of(module: nn.Module) -> dict[str, Array]:
    """Parameters and constants by name, as arrays; bfloat16 is widened to float32."""
    return {
        name: to_numpy(tensor).copy() for name, tensor in named_tensors(_uncompiled(module)).items()
    }


def load_parameters(module: nn.Module, values: Mapping[str, Array]) -> None:
    """Copy arrays into a module that holds exactly these names and shapes.

    Raises ShapeError naming the first difference.
    """
    held = named_tensors(_uncompiled(module))
    check_declared(
        {name: value.shape for name, value in values.items()},
        {name: tuple(tensor.shape) for name, tensor in held.items()},
        "load_parameters",
    )
    with torch.no_grad():
        for name, tensor in held.items():
            tensor.copy_(from_array(values[name]))


def _uncompiled(module: nn.Module) -> nn.Module:
    """The module inside of what torch.compile returns, or the module itself."""
    inner: nn.Module = getattr(module, "_orig_mod", module)
    return inner


def to_numpy(x: Tensor) -> Array:
    """A NumPy array of the values; narrower types become float32."""
    x = x.detach().cpu()
    if x.dtype in (torch.bfloat16, torch.float16):
        x = x.float()
    array: Array = x.numpy()
    return array


def from_array(array: Array) -> Tensor:
    """A tensor over the array's memory, or over a copy where PyTorch cannot take it as it is."""
    usable = array.flags.writeable and array.flags.c_contiguous
    return torch.from_numpy(array if usable else np.array(array, order="C"))


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and constants of a module by name."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def load(module: nn.Module, declared: Mapping[str, Parameter], start: Mapping[str, Array]) -> None:
    """Copy start values into a module that must hold exactly what is declared.

    Raises ShapeError naming the first difference in names, shapes, and what is trained.
    """
    held = {name: tuple(tensor.shape) for name, tensor in named_tensors(module).items()}
    check_declared(held, {name: p.shape for name, p in declared.items()}, "the torch module")
    trained = {
        name: isinstance(tensor, nn.Parameter) and tensor.requires_grad
        for name, tensor in named_tensors(module).items()
    }
    check_trained(trained, declared, "the torch module")
    with torch.no_grad():
        for name, tensor in named_tensors(module).items():
            tensor.copy_(from_array(start[name]))
