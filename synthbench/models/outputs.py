"""Whether the output of a mixer is what it must be: its kind, shape, type, device and values."""

from __future__ import annotations

from typing import Any, NamedTuple

from synthbench.errors import WrongOutputError, quote
from synthbench.mixers.base import Mixer
from synthbench.mixers.notation import format_mixer


class Expected(NamedTuple):
    """What the outputs of a model must be; `mixer` and `framework` name it in messages."""

    mixer: Mixer
    framework: str
    shape: tuple[int, ...]
    dtype: Any


def require_output(
    mixer: Mixer,
    framework: str,
    output: Any,
    shape: tuple[int, ...],
    dtype: Any = None,
    kind: type | None = None,
    device: Any = None,
) -> None:
    """Raise WrongOutputError unless an output has this shape and, if given, type, class and device.

    The class is that of the framework's arrays: a NumPy array is not a tensor.
    """
    got, got_type = getattr(output, "shape", None), getattr(output, "dtype", None)
    place = getattr(output, "device", None)
    if (
        got is not None
        and tuple(got) == shape
        and (dtype is None or got_type == dtype)
        and (kind is None or isinstance(output, kind))
        and (device is None or place == device)
    ):
        return
    of_kind = "" if kind is None or isinstance(output, kind) else f" as a {type_name(output)}"
    at = "" if device is None else f" on {place}"
    what = f"shape {tuple(got)} in {got_type}{at}{of_kind}" if got is not None else quote(output)
    wanted = f"shape {shape}"
    wanted += "" if dtype is None else f" in {dtype}"
    wanted += "" if device is None else f" on {device}"
    wanted += f" as a {kind.__module__}.{kind.__qualname__}" if of_kind and kind else ""
    raise WrongOutputError(
        f"{format_mixer(mixer)} in {framework} gives an output of {what}; expected {wanted}: a "
        "mixer gives back the shape and type of x"
    )


def require_finite(mixer: Mixer, framework: str, what: str, finite: bool) -> None:
    """Raise WrongOutputError if `what` was computed from finite inputs and is not finite."""
    if not finite:
        raise WrongOutputError(
            f"{format_mixer(mixer)} in {framework}: {what} has values that are NaN or infinite, "
            "for finite inputs and start values; find where they arise before timing it"
        )


def type_name(value: Any) -> str:
    """The class of a value as messages name it."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
