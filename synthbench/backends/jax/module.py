"""Declared parameters held in nnx.Modules under their declared names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from synthbench.backends.checks import check_declared, check_trained, require_free
from synthbench.backends.jax.placement import platform
from synthbench.backends.kernel_choice import LookUp, using_kernel
from synthbench.mixers.base import Array, Parameter
from synthbench.mixers.input_arrays import require_input
from synthbench.mixers.sizes import Sizes

DTYPES = {
    "float32": jnp.float32,
    "bfloat16": jnp.bfloat16,
    "float16": jnp.float16,
    "float64": jnp.float64,
}

Forward = Callable[[dict[str, jax.Array], jax.Array, jax.Array | None, bool], jax.Array]


class Constant(nnx.Variable[Any]):
    """A stored array that is never trained."""


class Declared(nnx.Module):
    """Holds declared parameters; a dot in a name makes a submodule, a constant is no Param.

    Each starts as its shape only (jax.ShapeDtypeStruct): `load` puts the values in.
    """

    def __init__(self, declared: Mapping[str, Parameter], dtype: Any) -> None:
        self._paths = tuple(tuple(name.split(".")) for name in declared)
        for name, parameter in declared.items():
            *path, leaf = name.split(".")
            owner: nnx.Module = self
            for part in path:
                if not hasattr(owner, part):
                    setattr(owner, part, nnx.Module())
                owner = getattr(owner, part)
                require_free(not isinstance(owner, nnx.Module), part, name, "an nnx module")
            require_free(hasattr(owner, leaf), leaf, name, "an nnx module")
            value = jax.ShapeDtypeStruct(parameter.shape, dtype)
            variable = nnx.Param if parameter.trainable else Constant
            setattr(owner, leaf, variable(value))

    def tensors(self) -> dict[str, jax.Array]:
        """Every declared parameter and constant by its declared name."""
        tensors = {}
        for path in self._paths:
            value: Any = self
            for part in path:
                value = getattr(value, part)
            tensors[".".join(path)] = value[...]
        return tensors


class MixerModule(Declared):
    """A mixer X [B,L,d] -> Y [B,L,d] whose forward pass is a function of its declared tensors."""

    def __init__(self, declared: Mapping[str, Parameter], function: Forward, dtype: Any) -> None:
        super().__init__(declared, dtype)
        self._function = function

    def __call__(
        self,
        x: jax.Array,
        padding_mask: jax.Array | None = None,
        causal: bool = False,
        position_bias: jax.Array | None = None,
    ) -> jax.Array:
        p = self.tensors()
        if position_bias is not None:  # of the model around the mixer
            p["position_bias"] = position_bias
        return self._function(p, x, padding_mask, causal)


class FixedCall(nnx.Module):
    """Mixed into a mixer's module: called as module(x, padding_mask=None), `causal` is fixed."""

    _fixed: tuple[Sizes, bool, LookUp]

    def __call__(self, x: jax.Array, padding_mask: jax.Array | None = None) -> jax.Array:
        """X [B,L,d] -> Y [B,L,d]; padding_mask [B,L] is True (or 1) at real tokens.

        Raises ShapeError for an empty batch, another d_model, or a length above max_len.
        """
        sizes, causal, look_up = self._fixed
        x = jnp.asarray(x)  # kernels cut JAX's arrays into blocks, and leave others whole
        require_input(x.shape, None if padding_mask is None else padding_mask.shape, sizes)
        mask = None if padding_mask is None else padding_mask.astype(bool)
        dtype, device = str(x.dtype), platform()
        with using_kernel(look_up(x.shape[0], x.shape[1], dtype, device, trained=False)):
            y: jax.Array = super().__call__(x, mask, causal)
        return y


class MixerLayer(FixedCall, MixerModule):  # type: ignore[misc]  # a call without causal
    """A mixer as a layer of a user's own model."""


def as_layer(module: nnx.Module, sizes: Sizes, causal: bool, look_up: LookUp) -> nnx.Module:
    """A mixer's module as users call it; its parameters keep the declared names."""
    own = type(module)
    layer: type[nnx.Module] = MixerLayer
    if own is not MixerModule:  # of a plug-in: no module around it, which would change the names
        layer = type(own.__name__, (FixedCall, own), {})
    object.__setattr__(module, "__class__", layer)
    module._fixed = (sizes, causal, look_up)  # type: ignore[attr-defined]
    return module


def parameters_of(module: nnx.Module) -> dict[str, Array]:
    """Parameters and constants by name, as arrays; bfloat16 is widened to float32."""
    values = named_parameters(nnx.state(module))
    return {name: np.array(to_numpy(value)) for name, value in values.items()}


def load_parameters(module: nnx.Module, values: Mapping[str, Array]) -> None:
    """Copy arrays into a module that holds exactly these names and shapes.

    Raises ShapeError naming the first difference.
    """
    state = nnx.state(module)
    held = {name_of(path): variable for path, variable in nnx.to_flat_state(state)}
    check_declared(
        {name: value.shape for name, value in values.items()},
        {name: tuple(variable.shape) for name, variable in held.items()},
        "load_parameters",
    )
    for name, variable in held.items():
        before = variable[...]
        place = before.sharding if before.committed else None
        variable.set_value(jax.device_put(values[name].astype(before.dtype), place))
    nnx.update(module, state)


def to_numpy(x: jax.Array) -> Array:
    """A NumPy array of the values; narrower types become float32."""
    if x.dtype in (jnp.bfloat16, jnp.float16):
        x = x.astype(jnp.float32)
    return jax.device_get(x)


def split(module: nnx.Module) -> tuple[Any, Any, Any]:
    """(graph, trained parameters, everything else) of a module, for nnx.merge."""
    graph, trained, *others = nnx.split(module, nnx.Param, ...)
    (constants,) = others
    return graph, trained, constants


def named_parameters(state: Any) -> dict[str, Any]:
    """The values of a state (or of gradients shaped like one) by declared name."""
    return {name_of(path): variable[...] for path, variable in nnx.to_flat_state(state)}


def name_of(path: tuple[Any, ...]) -> str:
    """The declared name of a path in a module's state."""
    return ".".join(str(part) for part in path)


def load(
    module: nnx.Module,
    declared: Mapping[str, Parameter],
    start: Mapping[str, Array],
    dtype: Any,
    device: jax.Device | None,
) -> None:
    """Put start values into a module that must hold exactly what is declared.

    Raises ShapeError naming the first difference in names, shapes, and what is trained.
    """
    state = nnx.state(module)
    held = {name_of(path): variable for path, variable in nnx.to_flat_state(state)}
    check_declared(
        {name: tuple(variable.shape) for name, variable in held.items()},
        {name: p.shape for name, p in declared.items()},
        "the jax module",
    )
    trained = {name: isinstance(variable, nnx.Param) for name, variable in held.items()}
    check_trained(trained, declared, "the jax module")
    for name, variable in held.items():
        variable.set_value(jax.device_put(start[name].astype(dtype), device))
    nnx.update(module, state)
