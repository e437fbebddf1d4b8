"""Options of tasks and data sources: the fields of their classes, checked against their types."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from synthbench.errors import NotationError, UnknownNameError, quote

T = TypeVar("T")

TYPES = "types"  # in the metadata of a field: the types it takes, where its default has only one
TYPE_NAMES = {dict: "mapping"}


def with_options(kind: str, cls: type[T], options: Mapping[str, Any]) -> T:
    """An object of a dataclass with these options; `kind` is what messages call it.

    Raises NotationError or UnknownNameError for wrong ones.
    """
    name: str = getattr(cls, "name")  # noqa: B009  # T has none for mypy
    declared = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for option, value in options.items():
        if option not in declared:
            raise UnknownNameError(f"option of {kind} {name}", option, declared)
        if not _fits(value, declared[option]):
            default = declared[option].default
            like = "" if default is None else f", like {default!r}"
            raise NotationError(
                f"{kind} {name}: {option} is {quote(value)}; expected "
                f"{_names_of(declared[option])}{like}"
            )
        if isinstance(value, float) and not math.isfinite(value):  # JSON has no such number
            raise NotationError(f"{kind} {name}: {option} is {value}; give a finite number")
    return cls(**options)


def _types_of(field: dataclasses.Field[Any]) -> tuple[type[Any], ...]:
    types: tuple[type[Any], ...] = field.metadata.get(TYPES, (type(field.default),))
    return types


def _names_of(field: dataclasses.Field[Any]) -> str:
    return " or ".join(TYPE_NAMES.get(one, one.__name__) for one in _types_of(field))


def _fits(value: Any, field: dataclasses.Field[Any]) -> bool:
    """Whether a value has a type of its field; where the default says none, any will do."""
    if field.default is None and (value is None or TYPES not in field.metadata):
        return True
    types = _types_of(field)
    return type(value) in types or (float in types and type(value) is int)
