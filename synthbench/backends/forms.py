"""Which of a mixer's forms is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from synthbench.errors import UnsupportedError


def choose_form(module: Any, form: str, name: str) -> Callable[..., Any]:
    """The forward function of a mixer's module for `form`.

    Raises UnsupportedError if the module has no such form.
    """
    form = resolve_form(module, form)
    if not hasattr(module, form):
        raise UnsupportedError(f"{name} has no form {form!r}; use form auto or reference")
    function: Callable[..., Any] = getattr(module, form)
    return function


def resolve_form(module: Any, form: str) -> str:
    """The form that is built for `form`: auto means fused if the module has it."""
    if form == "auto":
        return "fused" if hasattr(module, "fused") else "reference"
    return form
