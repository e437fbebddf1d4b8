"""Every use of what JAX does not promise to keep, each with a fallback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from synthbench.backends.base import require_private_api
from synthbench.errors import UnsupportedError

WALK = "count FLOPs"


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
