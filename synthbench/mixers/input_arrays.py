"""Arrays and types given by users, converted to what every framework accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from synthbench.errors import NotationError, ShapeError, UnknownNameError, quote
from synthbench.mixers.base import Array
from synthbench.mixers.sizes import Sizes

DTYPES = ("float32", "bfloat16", "float64")


def framework_array(value: Any) -> str | None:
    """torch for a torch.Tensor, jax for a traced JAX array, None for anything else.

    Told by the names of its classes, so that neither framework is imported.
    """
    for cls in type(value).__mro__:
        package = cls.__module__.partition(".")[0]
        if (package, cls.__name__) in (("torch", "Tensor"), ("jax", "Tracer")):
            return package
    return None


def require_input(shape: tuple[int, ...], mask_shape: tuple[int, ...] | None, sizes: Sizes) -> None:
    """Raise ShapeError unless x is [B,L,d] with B from 1 and L to max_len, and the mask [B,L]."""
    if len(shape) != 3 or shape[0] < 1 or shape[2] != sizes.d_model:
        raise ShapeError(
            f"x has shape {tuple(shape)}; expected [batch, length, d_model], each at least 1, with "
            f"d_model {sizes.d_model}"
        )
    sizes.require_length(shape[1])
    if mask_shape is not None and tuple(mask_shape) != tuple(shape[:2]):
        raise ShapeError(
            f"padding_mask has shape {tuple(mask_shape)}; expected [B, L] = {tuple(shape[:2])}"
        )


def dtype_name(dtype: Any) -> str:
    """The name of a type that is given by name or as a type of NumPy, PyTorch or JAX."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    name = name if isinstance(name, str) else quote(dtype).removeprefix("torch.")
    name = dtype if isinstance(dtype, str) else name
    if name not in DTYPES:
        raise UnknownNameError("dtype", dtype, DTYPES)
    return name


def named_numbers(parameters: Any) -> dict[str, Array]:
    """Parameters by name, each converted by `numbers`."""
    if not isinstance(parameters, Mapping) or not all(isinstance(n, str) for n in parameters):
        raise NotationError(
            f"parameters is {quote(parameters)}; give a mapping, parameter name -> array, as "
            "`initialize` returns it"
        )
    return {name: numbers(f"parameter {name!r}", value) for name, value in parameters.items()}


def numbers(what: str, values: Any) -> Array:
    """`values` as an array of real numbers that every framework accepts: float32 or float64."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors with gradients
        raise ShapeError(
            f"{what} ({type(values).__name__}) cannot be read as an array: {error}"
        ) from error
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise ShapeError(
            f"{what} holds {array.dtype.name} ({quote(values)}); give an array of real numbers"
        )
    native = array.dtype in (np.float32, np.float64) and array.dtype.isnative
    return array if native else array.astype(np.float64)


def booleans(padding_mask: Any, shape: tuple[int, ...]) -> Array:
    """The mask as booleans [B,L], from booleans or from numbers that are all 0 or 1."""
    try:
        mask = np.asarray(padding_mask)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(f"padding_mask cannot be read as an array: {error}") from error
    if mask.shape != shape:
        raise ShapeError(f"padding_mask has shape {mask.shape}; expected [B, L] = {shape}")
    if mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise ShapeError(
            f"padding_mask holds {_what_is_no_mask(mask)}; give True (or 1) at real tokens and "
            "False (or 0) at padded ones"
        )
    return mask.astype(bool)


def _what_is_no_mask(mask: Array) -> str:
    if mask.dtype.kind not in "biuf":
        return f"{mask.dtype.name}, no booleans"
    others = np.unique(mask[~np.isin(mask, (0, 1))])
    return f"{mask.dtype.name} values that are neither 0 nor 1, like {others[0]!s}"
