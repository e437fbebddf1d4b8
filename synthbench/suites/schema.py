"""Every key of a suite file with its type, default, meaning and an example, from the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel

from synthbench.suites.axes import MODEL_AXES, Axes
from synthbench.suites.measure import Measure, RoundsUntil
from synthbench.suites.settings import MixerSizes, ModelSection, Settings, TaskSection

SECTIONS: dict[str, type[BaseModel]] = {
    "settings": Settings,
    "axes": Axes,
    "model": ModelSection,
    "mixers": MixerSizes,
    "by_task": TaskSection,
    "measure": Measure,
    "rounds": RoundsUntil,
}

BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
TYPES = {
    "integer": "integer", "number": "number", "string": "text", "boolean": "true or false",
    "null": "null", "object": "mapping",
}  # fmt: skip
REQUIRED = "required"


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    type: str
    default: str | None  # as YAML; None: required
    meaning: str
    example: str  # as YAML

    @property
    def is_model_axis(self) -> bool:
        """Whether it is an axis that replaces a value of the model; asked of keys of `axes`."""
        return self.name in MODEL_AXES


def keys_of(section: str) -> list[Key]:
    """The keys of a section in the order of their declaration."""
    cls = SECTIONS[section]
    types = cls.model_json_schema()["properties"]
    keys: list[Key] = []
    for name, field in cls.model_fields.items():
        if not (field.description and field.examples):
            raise TypeError(f"{cls.__name__}.{name} needs Field(description=..., examples=[...])")
        default = {} if isinstance(field.default, BaseModel) else field.default
        keys.append(
            Key(
                name=name,
                type=_type(types[name]),
                default=None if field.is_required() else flow(default),
                meaning=field.description,
                example=flow(field.examples[0]),
            )
        )
    return keys


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    value = list(value) if isinstance(value, tuple) else value
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _type(declared: dict[str, Any]) -> str:
    """What a value must be, in words."""
    for several in ("anyOf", "oneOf"):
        if several in declared:
            return " or ".join(map(_type, declared[several]))
    if "enum" in declared or "const" in declared:
        values = declared.get("enum", [declared.get("const")])
        return _either([f"`{flow(value)}`" for value in values])
    if "$ref" in declared:
        return "section"
    if declared["type"] == "array":
        return f"list: {_type(declared['items'])}"
    bounds = [f"{sign} {declared[name]:g}" for name, sign in BOUNDS.items() if name in declared]
    return " ".join([TYPES[declared["type"]], " and ".join(bounds)]).strip()


def _either(options: list[str]) -> str:
    return " or ".join([", ".join(options[:-1]), options[-1]] if len(options) > 1 else options)
