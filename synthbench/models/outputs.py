"""Whether the output of a mixer has the shape and the type that it must have."""

from __future__ import annotations

from typing import Any

from synthbench.errors import SynthbenchError
from synthbench.mixers.base import Mixer
from synthbench.mixers.notation import format_mixer


def require_output(
    mixer: Mixer, framework: str, output: Any, shape: tuple[int, ...], dtype: Any = None
) -> None:
    """Raise SynthbenchError unless an output has this shape and, if given, this type."""
    got, got_type = getattr(output, "shape", None), getattr(output, "dtype", None)
    if got is None or tuple(got) != shape or (dtype is not None and got_type != dtype):
        what = f"a {type(output).__name__}" if got is None else f"shape {tuple(got)} in {got_type}"
        wanted = f"shape {shape}" if dtype is None else f"shape {shape} in {dtype}"
        raise SynthbenchError(
            f"{format_mixer(mixer)} in {framework} gives an output of {what}; expected {wanted}: a "
            "mixer gives back the shape and type of x"
        )
