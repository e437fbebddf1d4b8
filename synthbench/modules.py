"""Mixers as modules of a user's own model, and checkpoints between the frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from synthbench.api import (
    FORMS,
    backend_of,
    import_backend,
    initialize,
    kernel_lookup,
    mixer_of,
    require_causal,
    require_known,
)
from synthbench.devices import device_kind
from synthbench.errors import NotationError, quote
from synthbench.mixers.base import Array, Mixer
from synthbench.mixers.declaration import sizes_for
from synthbench.mixers.input_arrays import dtype_name, named_numbers
from synthbench.mixers.sizes import Sizes

if TYPE_CHECKING:
    import torch
    from flax import nnx

__all__ = ["load_parameters", "nnx_module", "parameters_of", "torch_module"]


def torch_module(
    variant: str | Mixer,
    *,
    d_model: int,
    heads: int,
    max_len: int,
    head_dim: int | None = None,
    causal: bool = False,
    form: str = "auto",
    seed: int = 0,
    dtype: Any = None,
    device: str | None = None,
) -> torch.nn.Module:
    """A variant as a torch.nn.Module, called as module(x, padding_mask=None): [B,L,d] -> [B,L,d].

    Lengths up to `max_len`; `padding_mask` [B,L] is True (or 1) at real tokens. It starts with the
    values of `initialize`, and its parameters have the declared names. `dtype` is float32, bfloat16
    or float64, by name or as torch writes it; None is torch's default, and so for `device`. Raises
    what `apply` does, FrameworkMissingError where torch is not installed.
    """
    if device is not None:
        device_kind(device)
    mixer, sizes, start = _start(
        variant, d_model, heads, max_len, head_dim, causal=causal, form=form, seed=seed
    )
    kind = None if dtype is None else dtype_name(dtype)
    if device is not None:
        backend_of("torch").require_device(device)
    model = import_backend("torch", "synthbench.backends.torch.model")
    module: torch.nn.Module = model.build_layer(
        mixer, sizes, start, form, kind, device,
        causal=bool(causal), look_up=kernel_lookup("torch", mixer, sizes, causal, form),
    )  # fmt: skip
    return module


def nnx_module(
    variant: str | Mixer,
    *,
    d_model: int,
    heads: int,
    max_len: int,
    head_dim: int | None = None,
    causal: bool = False,
    form: str = "auto",
    seed: int = 0,
    dtype: Any = None,
) -> nnx.Module:
    """A variant as a flax.nnx.Module, called as module(x, padding_mask=None): [B,L,d] -> [B,L,d].

    Lengths up to `max_len`; `padding_mask` [B,L] is True (or 1) at real tokens. It starts with the
    values of `initialize`, and its parameters have the declared names. `dtype` is float32, bfloat16
    or float64, by name or as jax writes it; None is float32. Raises what `apply` does,
    FrameworkMissingError where jax or flax is not installed.
    """
    mixer, sizes, start = _start(
        variant, d_model, heads, max_len, head_dim, causal=causal, form=form, seed=seed
    )
    kind = None if dtype is None else dtype_name(dtype)
    model = import_backend("jax", "synthbench.backends.jax.model")
    module: nnx.Module = model.build_layer(
        mixer, sizes, start, form, kind,
        causal=bool(causal), look_up=kernel_lookup("jax", mixer, sizes, causal, form),
    )  # fmt: skip
    return module


def parameters_of(module: torch.nn.Module | nnx.Module) -> dict[str, Array]:
    """Every parameter and constant of a module by name, copied into float32 or float64 arrays.

    Raises NotationError for what is not a module of torch or flax.
    """
    values: dict[str, Array] = _functions_for("parameters_of", module).parameters_of(module)
    return values


def load_parameters(module: torch.nn.Module | nnx.Module, parameters: Mapping[str, Array]) -> None:
    """Copy arrays, as `parameters_of` gives them in either framework, into a module.

    They are cast to the module's types. Raises ShapeError, naming the first difference, unless the
    names and shapes are exactly those of the module; NotationError for what is not a module.
    """
    functions = _functions_for("load_parameters", module)
    functions.load_parameters(module, named_numbers(parameters))


def _start(
    variant: str | Mixer,
    d_model: int,
    heads: int,
    max_len: int,
    head_dim: int | None,
    *,
    causal: bool,
    form: str,
    seed: int,
) -> tuple[Mixer, Sizes, dict[str, Array]]:
    """The mixer, its sizes and its start values, all checked."""
    mixer = mixer_of(variant)
    require_known("form", form, FORMS)
    require_causal(causal)
    sizes = sizes_for(
        mixer, d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim, causal=bool(causal)
    )
    start = initialize(
        mixer, d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim, seed=seed
    )
    return mixer, sizes, start


def _functions_for(caller: str, module: Any) -> Any:
    """The back end's functions for a module, found by its classes' names: nothing is imported."""
    packages = {cls.__module__.partition(".")[0] for cls in type(module).__mro__}
    for package, framework in (("torch", "torch"), ("flax", "jax")):
        if package in packages:
            return import_backend(framework, f"synthbench.backends.{framework}.module")
    raise NotationError(
        f"{caller} takes a module of torch_module or nnx_module, got {quote(module)}"
    )
