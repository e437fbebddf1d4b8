"""The public entry points, for notebooks, plug-ins and tests."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from synthbench.backends.base import BACKENDS, Backend, Setting, check_declared
from synthbench.errors import (
    FrameworkMissingError,
    NotationError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from synthbench.mixers import base
from synthbench.mixers.base import Array, Cost, Mixer, Sizes
from synthbench.mixers.catalog import register
from synthbench.mixers.notation import parse
from synthbench.models.start import start_values

if TYPE_CHECKING:
    import pandas

__all__ = ["apply", "cost", "initialize", "load_results", "register"]


def initialize(
    variant: str | Mixer,
    *,
    d_model: int,
    heads: int,
    max_len: int,
    head_dim: int | None = None,
    seed: int = 0,
) -> dict[str, Array]:
    """Draw the start values of a variant: parameter name -> float32 array of its declared shape.

    Raises NotationError or UnknownNameError for the variant, ShapeError for the sizes.
    """
    mixer = _mixer(variant)
    sizes = Sizes.of(d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim)
    mixer.check(sizes)
    return start_values(mixer.parameters(sizes), seed)


def apply(
    variant: str | Mixer,
    parameters: Mapping[str, Array],
    x: Array,
    *,
    heads: int,
    max_len: int,
    framework: str = "numpy",
    form: str = "auto",
    padding_mask: Array | None = None,
    causal: bool = False,
    dtype: str = "float32",
    device: str = "cpu",
) -> Array:
    """Y [B,L,d] of a variant for X [B,L,d] and the parameters of `initialize`.

    `framework` is torch, jax or numpy (the reference); `padding_mask` [B,L] is True at real
    tokens. The result is float64 for dtype float64 and float32 otherwise. Raises ShapeError,
    UnsupportedError (causal linformer), FrameworkMissingError.
    """
    mixer = _mixer(variant)
    x = np.asarray(x)
    if x.ndim != 3:
        raise ShapeError(f"x has shape {x.shape}; expected [batch, length, d_model]")
    _require_known("framework", framework, (*BACKENDS, "numpy"))
    _require_known("dtype", dtype, ("float32", "bfloat16", "float64"))
    _require_known("form", form, ("auto", "fused", "reference"))
    values = {name: np.asarray(value) for name, value in parameters.items()}
    sizes = Sizes.of(d_model=x.shape[2], heads=heads, max_len=max_len, head_dim=_head_dim(values))
    sizes.require_length(x.shape[1])
    mixer.check(sizes, causal=causal)
    check_declared(
        {name: value.shape for name, value in values.items()},
        {name: p.shape for name, p in mixer.parameters(sizes).items()},
        f"apply({mixer.notation})",
    )
    mask = None if padding_mask is None else np.asarray(padding_mask).astype(bool)
    if mask is not None and mask.shape != x.shape[:2]:
        raise ShapeError(f"padding_mask has shape {mask.shape}; expected [B, L] = {x.shape[:2]}")
    if framework == "numpy":
        return _apply_reference(mixer, values, x, sizes, form, mask, causal, dtype)
    backend = _backend(framework)
    backend.require_device(device)
    setting = Setting(dtype=dtype, device=device, form=form)
    return backend.apply(mixer, sizes, values, x, setting, padding_mask=mask, causal=causal)


def cost(
    variant: str | Mixer,
    *,
    batch: int,
    seq_len: int,
    d_model: int,
    heads: int,
    max_len: int,
    head_dim: int | None = None,
) -> Cost:
    """Parameters, constants and FLOPs (2 a multiply-accumulate) of one forward pass of a variant.

    Raises NotationError or UnknownNameError for the variant, ShapeError for the sizes.
    """
    sizes = Sizes.of(d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim)
    return base.cost(_mixer(variant), sizes, batch=batch, seq_len=seq_len)


def load_results(path: str | Path) -> pandas.DataFrame:
    """Read a run (`results/<suite>/<run>`), or every run below a folder, a row a record.

    Raises ResultsError where there is no readable run.
    """
    from synthbench.report.frame import record_frame
    from synthbench.store import read_records

    return record_frame(read_records(path))


def _mixer(variant: str | Mixer) -> Mixer:
    if isinstance(variant, Mixer):
        return variant
    if not isinstance(variant, str):
        raise NotationError(
            f"a variant is a string like 'FR(rank=32)+V', or a Mixer; got {variant!r}"
        )
    return parse(variant)


def _head_dim(values: Mapping[str, Array]) -> int | None:
    """Head size k as the value projection [d,H,k] shows it; None (d / H) where there is none."""
    value = values.get("value")
    return None if value is None or value.ndim != 3 else int(value.shape[2])


def _apply_reference(
    mixer: Mixer,
    values: Mapping[str, Array],
    x: Array,
    sizes: Sizes,
    form: str,
    mask: Array | None,
    causal: bool,
    dtype: str,
) -> Array:
    if not mixer.has_reference:
        raise UnsupportedError(
            f"{mixer.notation} gives no NumPy reference; use framework torch or jax"
        )
    if dtype == "bfloat16" or form == "fused":
        raise UnsupportedError(
            f"the NumPy reference has no {'bfloat16' if dtype == 'bfloat16' else 'fused form'}; "
            "use dtype float32 or float64 and form reference, or framework torch or jax"
        )
    typed = {name: value.astype(dtype) for name, value in values.items()}
    return mixer.reference(typed, x.astype(dtype), sizes, padding_mask=mask, causal=causal)


def _backend(framework: str) -> Backend:
    try:
        return cast(Backend, importlib.import_module(BACKENDS[framework]))
    except ModuleNotFoundError as error:
        raise FrameworkMissingError(
            f"{framework} cannot be used: no module named {error.name!r}; "
            f"install it with pip install 'synthbench[{framework}]'"
        ) from error


def _require_known(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UnknownNameError(kind, name, known)
