"""The declarations of a mixer, with checks, since a plug-in may return anything."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Protocol

from synthbench.errors import NotationError, ShapeError, quote
from synthbench.mixers.base import Cost, Mixer, Parameter
from synthbench.mixers.plugin_errors import attribute_plugin_errors
from synthbench.mixers.sizes import Sizes, require_divisible
from synthbench.mixers.validation import require_integer


class Declares(Protocol):
    """What a mixer and a component have in common."""

    def parameters(self, sizes: Sizes) -> dict[str, Parameter]:
        """Declare every parameter by name."""

    def flops(self, sizes: Sizes, *, batch: int, seq_len: int) -> int | None:
        """FLOPs at [batch, seq_len]; None without a formula."""


def sizes_for(
    mixer: Mixer,
    *,
    d_model: int,
    heads: int,
    max_len: int,
    head_dim: int | None = None,
    causal: bool = False,
) -> Sizes:
    """`Sizes.of`, checked by the mixer; the message suggests `head_dim` only if that would help.

    Raises what the mixer's `check` does.
    """
    d_model, heads = require_integer("d_model", d_model), require_integer("heads", heads)
    max_len = require_integer("max_len", max_len)
    if head_dim is None and d_model % heads:
        apart = Sizes(d_model, heads, max(1, d_model // heads), max_len)
        helps = _passes(mixer, apart)
        require_divisible(d_model, heads, or_else=", or give head_dim" if helps else "")
    sizes = Sizes.of(d_model=d_model, heads=heads, max_len=max_len, head_dim=head_dim)
    check_mixer(mixer, sizes, causal=causal)
    return sizes


def check_mixer(mixer: Mixer, sizes: Sizes, *, causal: bool = False) -> None:
    """Call a mixer's `check`: raises what it raises, or SynthbenchError if it fails."""
    with attribute_plugin_errors(type(mixer), "check"):
        mixer.check(sizes, causal=causal)


def _passes(mixer: Mixer, sizes: Sizes) -> bool:
    try:
        check_mixer(mixer, sizes)
    except ShapeError:
        return False
    return True


def declared_parameters_of(owner: Declares, sizes: Sizes) -> dict[str, Parameter]:
    """The result of `owner.parameters`; raises NotationError if it is not {name: Parameter}."""
    with attribute_plugin_errors(type(owner), "parameters"):
        declared: Any = owner.parameters(sizes)
    name = type(owner).__name__
    if not isinstance(declared, Mapping):
        raise NotationError(
            f"{name}.parameters() returns {quote(declared)}; return a dict, parameter name -> "
            "synthbench.Parameter(shape, init), empty if it has none"
        )
    for key, parameter in declared.items():
        if not (isinstance(key, str) and isinstance(parameter, Parameter)):
            raise NotationError(
                f"{name}.parameters() declares {quote(key)} as {quote(parameter)}; declare each "
                "name as synthbench.Parameter(shape, init)"
            )
    return dict(declared)


def flops_of(owner: Declares, sizes: Sizes, *, batch: int, seq_len: int) -> int | None:
    """The result of `owner.flops`; raises NotationError if it is neither None nor 0 or more."""
    with attribute_plugin_errors(type(owner), "flops"):
        flops: Any = owner.flops(sizes, batch=batch, seq_len=seq_len)
    if flops is None:
        return None
    if isinstance(flops, float) and flops.is_integer():  # such as the result of a division
        flops = int(flops)
    try:
        number = operator.index(flops)
    except TypeError:
        number = -1
    if number < 0:
        raise NotationError(
            f"{type(owner).__name__}.flops() returns {quote(flops)}; return an integer of at least "
            "0, or None where there is no formula"
        )
    return number


def cost(mixer: Mixer, sizes: Sizes, *, batch: int, seq_len: int) -> Cost:
    """Count a mixer's parameters from their declaration, and its FLOPs from its formula.

    Raises ShapeError for a batch or length that is not an integer of at least 1.
    """
    batch, seq_len = require_integer("batch", batch), require_integer("seq_len", seq_len)
    check_mixer(mixer, sizes)
    sizes.require_length(seq_len)
    declared = declared_parameters_of(mixer, sizes).values()
    return Cost(
        parameters=sum(p.size for p in declared if p.trainable),
        constants=sum(p.size for p in declared if not p.trainable),
        flops=flops_of(mixer, sizes, batch=batch, seq_len=seq_len),
    )
