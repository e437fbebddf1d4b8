"""Declared parameters held in nn.Modules under their declared names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from synthbench.backends.base import check_declared
from synthbench.mixers.base import Array, Parameter

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
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
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


def from_array(array: Array) -> Tensor:
    """A tensor over the array's memory, or over a copy where PyTorch cannot take it as it is."""
    usable = array.flags.writeable and array.flags.c_contiguous
    return torch.from_numpy(array if usable else np.array(array, order="C"))


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and constants of a module by name."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def load(module: nn.Module, declared: Mapping[str, Parameter], start: Mapping[str, Array]) -> None:
    """Copy start values into a module that must hold exactly the declared names and shapes.

    Raises ShapeError naming the first difference.
    """
    held = {name: tuple(tensor.shape) for name, tensor in named_tensors(module).items()}
    check_declared(held, {name: p.shape for name, p in declared.items()}, "the torch module")
    with torch.no_grad():
        for name, tensor in named_tensors(module).items():
            tensor.copy_(from_array(start[name]))
