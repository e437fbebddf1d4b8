"""What both back ends check before they build: the device, the declared parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synthbench.backends.base import DeviceInfo
from synthbench.devices import device_kind, index_of, is_host, is_same_kind
from synthbench.errors import FrameworkMissingError, NotationError, ShapeError
from synthbench.mixers.base import Parameter


def require_listed(
    device: str, found: Iterable[DeviceInfo], framework: str, advice: Mapping[str, str]
) -> None:
    """Raise FrameworkMissingError, with what to do, unless a device is among those found.

    `framework`: its name and version. `advice`: kind of device -> how a framework gets to see one.
    """
    kind, names = device_kind(device).name, [info.name for info in found]
    if is_host(device) or f"{kind}:{index_of(device)}" in names:
        return
    others = any(is_same_kind(device, name) for name in names)
    raise FrameworkMissingError(
        f"{framework} has no device {device!r}; it finds {', '.join(names)}; "
        f"{'choose one of these' if others else advice[kind]}"
    )


def require_free(is_taken: bool, part: str, name: str, where: str) -> None:
    """Raise NotationError where a module has something else by one part of a parameter's name."""
    if is_taken:
        raise NotationError(
            f"{where} cannot hold a parameter named {name!r}: {part!r} is something else there; "
            "declare it under another name"
        )


def check_declared(
    found: Mapping[str, tuple[int, ...]], declared: Mapping[str, tuple[int, ...]], where: str
) -> None:
    """Raise ShapeError unless the parameters have exactly the declared names and shapes."""
    for name in sorted(found.keys() | declared.keys()):
        if found.get(name) != declared.get(name):
            raise ShapeError(
                f"{where}: parameter {name!r} is declared as {declared.get(name, 'absent')}, "
                f"got {found.get(name, 'none of that name')}; declared: {', '.join(declared)}"
            )


def check_trained(
    trained: Mapping[str, bool], declared: Mapping[str, Parameter], where: str
) -> None:
    """Raise ShapeError unless exactly those parameters are trained that are declared so."""
    for name, is_trained in trained.items():
        if is_trained == declared[name].trainable:
            continue
        if is_trained:
            held, advice = "trains it", "make it a constant there, or declare it as trained"
        else:
            held = "holds it as a constant"
            advice = "make it a parameter there, or declare it with trainable=False"
        is_declared = "trained" if declared[name].trainable else "a constant"
        raise ShapeError(
            f"{where}: parameter {name!r} is declared as {is_declared}, and the module {held}; "
            f"{advice}"
        )
