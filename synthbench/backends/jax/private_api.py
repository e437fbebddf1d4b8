"""Every use of what JAX does not promise to keep, each with a fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import Array

from synthbench.backends.private_api import require_private_api
from synthbench.errors import UnsupportedError

WALK = "count FLOPs"
CUDNN = "jax._src.cudnn.fused_attention_stablehlo"
CALL_CUDNN = "call cuDNN's attention"


def without_dead_code(jaxpr: Any) -> Any | None:
    """The part of a jaxpr that its results depend on; None if JAX has no way to find it."""
    try:
        eliminate = require_private_api("jax.interpreters.partial_eval.dce_jaxpr", WALK)
        live, _ = eliminate(jaxpr, [True] * len(jaxpr.outvars))
    except (UnsupportedError, TypeError, ValueError):  # missing, or with another signature
        return None
    return live


def jaxprs_in(params: Any) -> Iterator[Any]:
    """Every jaxpr among the parameters of an equation."""
    try:
        yield from require_private_api("jax.extend.core.jaxprs_in_params", WALK)(params)
    except UnsupportedError:
        for value in params.values():
            for each in value if isinstance(value, tuple) else (value,):
                jaxpr = getattr(each, "jaxpr", each)
                if hasattr(jaxpr, "eqns"):
                    yield jaxpr


def is_literal(value: Any) -> bool:
    """Whether an operand of an equation is a constant of the program."""
    try:
        return isinstance(value, require_private_api("jax.extend.core.Literal", WALK))
    except UnsupportedError:
        return hasattr(value, "val")


def platform_version() -> str | None:
    """What the runtime says of its platform (CUDA version, for example); None if nothing."""
    version: str | None = getattr(
        getattr(jax.devices()[0], "client", None), "platform_version", None
    )
    return None if version is None else " ".join(version.split())


def cudnn_version() -> int | None:
    """The version of cuDNN, as 91900; 0 if JAX does not say, None if it has found no cuDNN."""
    try:
        version: int = require_private_api(f"{CUDNN}.check_cudnn_version", CALL_CUDNN)()
    except UnsupportedError:
        return 0
    except RuntimeError:
        return None
    return version


def has_cudnn_attention() -> bool:
    """Whether `cudnn_attention` is there."""
    try:
        _cudnn_functions()
    except UnsupportedError:
        return False
    return True


def cudnn_attention(query: Array, key: Array, value: Array, *, causal: bool) -> Array:
    """softmax(query key^T) value by cuDNN: [B,L,H,f], [B,L,H,f], [B,L,H,c] -> [B,L,H,c].

    `jax.nn.dot_product_attention` is this function with a check that f and c are equal.
    """
    attend, masks = _cudnn_functions()
    mask = masks.CAUSAL if causal else masks.NO_MASK
    made: Array = attend(query, key, value, scale=1.0, mask_type=mask)
    return made


def _cudnn_functions() -> tuple[Callable[..., Array], Any]:
    """JAX's function for cuDNN's attention, and the names of its masks."""
    attend = require_private_api(f"{CUDNN}.dot_product_attention", CALL_CUDNN)
    return attend, require_private_api(f"{CUDNN}.MaskType", CALL_CUDNN)
