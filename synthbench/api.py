"""The public entry points, for notebooks, plug-ins and tests."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from synthbench.backends.base import BACKENDS, Backend, Setting
from synthbench.backends.checks import check_declared
from synthbench.backends.kernel_choice import using_kernel
from synthbench.devices import device_kind, is_host
from synthbench.errors import (
    FrameworkMissingError,
    NotationError,
    ResultsError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    quote,
)
from synthbench.mixers import declaration
from synthbench.mixers.attention import Attention
from synthbench.mixers.base import Array, Cost, Mixer
from synthbench.mixers.declaration import declared_parameters_of, sizes_for
from synthbench.mixers.input_arrays import (
    booleans,
    dtype_name,
    framework_array,
    named_numbers,
    numbers,
)
from synthbench.mixers.linformer import Linformer
from synthbench.mixers.notation import format_mixer, parse
from synthbench.mixers.sizes import Sizes
from synthbench.mixers.validation import require_integer
from synthbench.models.outputs import require_output
from synthbench.models.start_values import start_values
from synthbench.run.extensions import register

if TYPE_CHECKING:
    import pandas

    from synthbench.measure.kernel_lookup import KernelLookup

FLOAT32_BYTES = 4
FORMS = ("auto", "fused", "reference")

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

    Raises NotationError or UnknownNameError for the variant, ShapeError for sizes that do not fit
    together, or not into memory, and for a seed that is not an integer of at least 0.
    """
    from synthbench.measure.environment import available_memory

    mixer = mixer_of(variant)
    sizes = sizes_for(mixer, d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim)
    seed = require_integer("seed", seed, least=0)
    declared = declared_parameters_of(mixer, sizes)
    needed, there = FLOAT32_BYTES * sum(p.size for p in declared.values()), available_memory()
    if needed > there:
        largest = max(declared, key=lambda name: declared[name].size)
        raise ShapeError(
            f"the parameters of {format_mixer(mixer)} would take {needed:,} bytes at these sizes, "
            f"most of it {largest} {list(declared[largest].shape)}; {there:,} bytes are there; "
            "use smaller sizes (`cost` needs no memory)"
        )
    with _memory_explained(f"the start values of {format_mixer(mixer)}"):
        return start_values(declared, seed)


def apply(
    variant: str | Mixer,
    parameters: Mapping[str, Array],
    x: Array,
    *,
    heads: int,
    max_len: int,
    head_dim: int | None = None,
    framework: str = "numpy",
    form: str = "auto",
    padding_mask: Array | None = None,
    causal: bool = False,
    dtype: str = "float32",
    device: str = "cpu",
) -> Array:
    """Y [B,L,d] of a variant for X [B,L,d] and the parameters of `initialize`.

    `head_dim` is that of `initialize`; of a mixer with V's value projection its parameters show it.
    `framework` is torch, jax or numpy (the reference); `padding_mask` [B,L] is True (or 1) at real
    tokens. The result is float64 for dtype float64 and float32 otherwise. Raises ShapeError,
    NotationError, UnsupportedError (causal linformer), FrameworkMissingError.
    """
    mixer = mixer_of(variant)
    _refuse_framework_arrays(parameters, x=x, padding_mask=padding_mask)
    x = numbers("x", x)
    if x.ndim != 3 or x.shape[0] < 1:
        raise ShapeError(
            f"x has shape {x.shape}; expected [batch, length, d_model], each at least 1"
        )
    require_known("framework", framework, (*BACKENDS, "numpy"))
    dtype = dtype_name(dtype)
    require_known("form", form, FORMS)
    require_causal(causal)
    device_kind(device)
    values = named_numbers(parameters)
    sizes = sizes_for(
        mixer,
        d_model=x.shape[2],
        heads=heads,
        max_len=max_len,
        head_dim=_head_dim(mixer, values) if head_dim is None else head_dim,
        causal=bool(causal),
    )
    sizes.require_length(x.shape[1])
    check_declared(
        {name: value.shape for name, value in values.items()},
        {name: p.shape for name, p in declared_parameters_of(mixer, sizes).items()},
        f"apply({format_mixer(mixer)})",
    )
    mask = None if padding_mask is None else booleans(padding_mask, x.shape[:2])
    with _memory_explained(f"apply({format_mixer(mixer)}) on x {list(x.shape)}"):
        if framework == "numpy":
            y = _apply_reference(mixer, values, x, sizes, form, mask, causal, dtype, device)
        else:
            backend = backend_of(framework)
            backend.require_device(device)
            setting = Setting(dtype=dtype, device=device, form=form)
            look_up = kernel_lookup(framework, mixer, sizes, causal, form)
            with using_kernel(look_up(x.shape[0], x.shape[1], dtype, device, trained=False)):
                y = backend.apply(
                    mixer, sizes, values, x, setting, padding_mask=mask, causal=causal
                )
    require_output(mixer, framework, y, x.shape)
    return y


def kernel_lookup(
    framework: str, mixer: Mixer, sizes: Sizes, causal: bool, form: str
) -> KernelLookup:
    """What gives the kernels of a mixer that runs chose on this machine."""
    from synthbench.measure.kernel_lookup import KernelLookup

    return KernelLookup(framework, format_mixer(mixer), sizes, bool(causal), form)


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
    mixer = mixer_of(variant)
    sizes = sizes_for(mixer, d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim)
    return declaration.cost(mixer, sizes, batch=batch, seq_len=seq_len)


def load_results(path: str | Path) -> pandas.DataFrame:
    """Read a run (`results/<suite>/<run>`), or every run below a folder, a row a record.

    Raises ResultsError where there is no readable run.
    """
    from synthbench.report.data.frame import record_frame
    from synthbench.store import read_records

    if not isinstance(path, str | Path):
        raise ResultsError(
            f"give a path of a run or of a folder of runs, like results/smoke; got {quote(path)}"
        )
    return record_frame(read_records(path))


def mixer_of(variant: str | Mixer) -> Mixer:
    """A variant as the mixer it names."""
    if isinstance(variant, Mixer):
        return variant
    if not isinstance(variant, str):
        raise NotationError(
            f"a variant is a string like 'FR(rank=32)+V', or a Mixer; got {quote(variant)}"
        )
    return parse(variant)


MODULES = {"torch": "torch_module", "jax": "nnx_module"}


def _refuse_framework_arrays(parameters: Any, **others: Any) -> None:
    """Raise NotationError, naming the function to use instead, for what `apply` cannot follow."""
    named = parameters.items() if isinstance(parameters, Mapping) else ()
    for name, value in [*others.items(), *((f"parameter {n!r}", v) for n, v in named)]:
        if framework := framework_array(value):
            what = "a torch tensor" if framework == "torch" else "a traced jax array"
            raise NotationError(
                f"{name} is {what}; apply takes NumPy arrays and makes no gradients; inside a "
                f"model use synthbench.{MODULES[framework]}(variant, ...), or give NumPy arrays"
            )


def _head_dim(mixer: Mixer, values: Mapping[str, Array]) -> int | None:
    """Head size k as the value projection [d,H,k] shows it; None (d / H) where there is none."""
    if not isinstance(mixer, Attention | Linformer):  # a parameter of that name may be anything
        return None
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
    device: str,
) -> Array:
    if not is_host(device):
        raise UnsupportedError(
            f"the NumPy reference runs on the cpu only, not on {device}; use framework torch or jax"
        )
    if not mixer.has_reference:
        raise UnsupportedError(
            f"{format_mixer(mixer)} gives no NumPy reference; use framework torch or jax"
        )
    if dtype == "bfloat16" or form == "fused":
        raise UnsupportedError(
            f"the NumPy reference has no {'bfloat16' if dtype == 'bfloat16' else 'fused form'}; "
            "use dtype float32 or float64 and form reference, or framework torch or jax"
        )
    typed = {name: value.astype(dtype) for name, value in values.items()}
    return mixer.reference(typed, x.astype(dtype), sizes, padding_mask=mask, causal=causal)


def backend_of(framework: str) -> Backend:
    """A framework's back end; FrameworkMissingError where the framework is not installed."""
    return cast(Backend, import_backend(framework, BACKENDS[framework]))


def import_backend(framework: str, module: str) -> ModuleType:
    """A module of a back end; FrameworkMissingError where the framework is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise FrameworkMissingError(
            f"{framework} cannot be used: no module named {error.name!r}; "
            f"install it with pip install 'synthbench[{framework}]'"
        ) from error


def require_causal(causal: Any) -> None:
    """Raise NotationError unless this is True or False."""
    if not isinstance(causal, bool | np.bool_):
        raise NotationError(f"causal is {quote(causal)}; use True or False")


def require_known(kind: str, name: Any, known: tuple[str, ...]) -> None:
    """Raise UnknownNameError unless a name is one of these."""
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known)


@contextlib.contextmanager
def _memory_explained(what: str) -> Iterator[None]:
    """Say what did not fit, where memory runs out."""
    from synthbench.run.outcome import is_out_of_memory

    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise ShapeError(
            f"{what} does not fit into memory: {quote(str(error) or 'out of memory')}; "
            "use smaller sizes"
        ) from error
