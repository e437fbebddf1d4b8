"""Plug-in components, with their functions in one framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from synthbench.errors import NotationError, UnsupportedError, quote
from synthbench.mixers.attention import Attention
from synthbench.mixers.catalog import COMPONENTS
from synthbench.mixers.component import Component, require_shape
from synthbench.mixers.plugin_errors import attribute_plugin_errors
from synthbench.mixers.sizes import Sizes

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX"}


@dataclass(frozen=True)
class PluginComponent(Component):
    """A plug-in component in one framework: its functions for the sizes of a mixer."""

    component: Component
    framework: str
    heads: int
    logits: Callable[..., Any]
    features: Callable[..., Any] | None
    rows: Callable[..., Any] | None

    @property
    def name(self) -> str:  # type: ignore[override]
        """A name that no built-in component has, so that code for built-in names ignores it."""
        return f"plug-in {self.component.name}"

    @property
    def whole_kernel(self) -> str:
        """The kernel to record if the fused form computes all logits at once."""
        return f"{self.component.name}: all logits at once"

    def make_logits(self, p: Any, x: Any, padding_mask: Any, causal: bool) -> Any:
        """Logits [B or 1, H, L, L]; raises ShapeError for another shape."""
        made = self.logits(p, x, padding_mask, causal)
        B, L = x.shape[:2]
        letters, sizes = ("B", "H", "L", "L"), (B, self.heads, L, L)
        require_shape(self.component, self.framework, "logits", made, letters, sizes)
        return made

    def make_features(self, p: Any, x: Any, padding_mask: Any, causal: bool) -> tuple[Any, Any]:
        """Query and key features [B or 1, H, L, f]; raises ShapeError for other shapes."""
        assert self.features is not None
        made = self.features(p, x, padding_mask, causal)
        method = f"{self.framework}_features"
        if not (isinstance(made, tuple) and len(made) == 2):
            raise NotationError(
                f"{self.component.name}: {method}() gives {quote(made)}; "
                "return the two arrays (query features, key features)"
            )
        query, key = made
        letters, sizes = ("B", "H", "L", "f"), (x.shape[0], self.heads, x.shape[1])
        for what, array in (("query features", query), ("key features", key)):
            f = getattr(query, "shape", (0,))[-1]
            require_shape(self.component, method, what, array, letters, (*sizes, f))
        return query, key

    def make_rows(self, p: Any, x: Any, heads: Any, queries: Any) -> Any:
        """Logits [B or 1, h, q, L] of some heads and queries; raises ShapeError otherwise."""
        assert self.rows is not None
        made = self.rows(p, x, heads, queries)
        letters = ("B", "len(heads)", "len(queries)", "L")
        sizes = (x.shape[0], heads.shape[0], queries.shape[0], x.shape[1])
        require_shape(self.component, f"{self.framework}_rows", "logits", made, letters, sizes)
        return made

    def own(self, p: dict[str, Any]) -> dict[str, Any]:
        """This component's part of the mixture's parameters."""
        prefix = f"{self.component.name}."
        return {name: value for name, value in p.items() if name.startswith(prefix)}


def with_functions(mixer: Attention, sizes: Sizes, framework: str) -> Attention:
    """A mixture whose plug-in components have their functions in one framework.

    Raises UnsupportedError where a component has none in this framework.
    """
    components = tuple(
        component if is_builtin(component) else _with_functions(component, sizes, framework)
        for component in mixer.components
    )
    return replace(mixer, components=components)


def is_builtin(component: Component) -> bool:
    """Whether this is exactly one of the package's own components."""
    return COMPONENTS.get(component.name) is type(component)


def _with_functions(component: Component, sizes: Sizes, framework: str) -> PluginComponent:
    if getattr(type(component), framework) is getattr(Component, framework):
        raise UnsupportedError(
            f"{component.name} has no {framework}(); it cannot run in {FRAMEWORKS[framework]}"
        )
    logits = _function(component, framework, sizes)
    if logits is None:
        raise NotationError(
            f"{type(component).__name__}.{framework}() returns None; return a function "
            "(p, x, padding_mask, causal) -> logits"
        )
    return PluginComponent(
        component,
        framework,
        sizes.heads,
        logits,
        _function(component, f"{framework}_features", sizes),
        _function(component, f"{framework}_rows", sizes),
    )


def _function(component: Component, method: str, sizes: Sizes) -> Callable[..., Any] | None:
    """The function that one of a component's methods returns, or None."""
    with attribute_plugin_errors(type(component), method):
        made = getattr(component, method)(sizes)
    if made is not None and not callable(made):
        raise NotationError(
            f"{type(component).__name__}.{method}() returns {quote(made)}; return a function"
        )
    function: Callable[..., Any] | None = made
    return function
