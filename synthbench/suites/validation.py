"""Messages for the author of a suite file, from what pydantic found wrong in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from synthbench.errors import quote
from synthbench.suites.measure import NUMBER_TAG, SECTION_TAG
from synthbench.suites.schema import flow
from synthbench.suites.settings import Settings

TAGS = {NUMBER_TAG, SECTION_TAG}
EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "too_short": "a list with at least one entry",
    "model_type": "keys below it",
    "model_attributes_type": "keys below it",
}


def explain(
    error: ValidationError,
    source: str,
    kind: str,
    override: Mapping[str, Any] | None,
    top_keys: Iterable[str],
) -> str:
    """One line per mistake: file, key, what was given, what is allowed, and near matches."""
    lines: list[str] = []
    mistakes = error.errors()
    if any(mistake["loc"][0] == "models" for mistake in mistakes):
        # `model` is then a copy of the first of them, which the file does not contain
        mistakes = [mistake for mistake in mistakes if mistake["loc"][0] != "model"]
    for mistake in mistakes:
        depth = len(mistake["loc"])
        below = any(m["loc"][:depth] == mistake["loc"] and m is not mistake for m in mistakes)
        if mistake["type"] == "too_short" and below:
            continue  # its wrong entries are reported, and pydantic does not count them
        line = f"{source}: {describe(mistake, kind, override or {}, list(top_keys))}"
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def describe(
    mistake: Any,
    kind: str = "",
    override: Mapping[str, Any] = MappingProxyType({}),
    top_keys: Sequence[str] = (),
    within: str = "",
) -> str:
    """One mistake: key, what was given, what is allowed; `within`: where the settings stand."""
    location: tuple[Any, ...] = tuple(part for part in mistake["loc"] if part not in TAGS)
    context = mistake.get("ctx", {})
    # Of keys of a section that do not fit together: the first is named.
    places = [(*location, key) for key in context.get("keys", [])] or [location]
    location = places[0]
    path = ".".join(part if len(part) <= 60 else quote(part) for part in map(str, location))
    path = within + path
    if any(_is_given_in(override, place) for place in places):
        path = f"devices.{kind}.{path}"
    got = context.get("got", mistake["input"])
    match mistake["type"]:
        case "missing":
            or_section = f", or under devices.{kind}" if override else ""
            return f"{path}: missing; give it there{or_section}"
        case "extra_forbidden":
            known = _keys_at(location[:-1]) or top_keys
            if len(location) == 1:
                known = [*top_keys]
            near = difflib.get_close_matches(str(location[-1]), known, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            return f"{path}: unknown key.{hint} Known here: {', '.join(known)}"
        case "literal_error":
            options = mistake["ctx"]["expected"].replace("True", "true").replace("False", "false")
            expected = f"one of {options}"
            near = difflib.get_close_matches(
                str(got), options.replace("'", "").split(), n=1, cutoff=0.5
            )
            hint = f" (did you mean {near[0].rstrip(',')}?)" if near else ""
            return f"{path}: got {quote(got)}, expected {expected}{hint}"
        case "greater_than":
            expected = f"a number greater than {mistake['ctx']['gt']}"
        case "less_than":
            expected = f"a number less than {mistake['ctx']['lt']}"
        case "greater_than_equal":
            expected = f"a number of at least {mistake['ctx']['ge']}"
        case "less_than_equal":
            expected = f"a number of at most {mistake['ctx']['le']}"
        case "tuple_type":
            expected = EXPECTED["tuple_type"] + _as_list(got)
        case known_type:
            expected = EXPECTED.get(known_type, mistake["msg"])
    return f"{path}: got {quote(got)}, expected {expected}"


def _as_list(value: Any) -> str:
    """How a single value is written as a list, where that is short and plain."""
    if not isinstance(value, str | int | float) or "," in str(value):
        return ""
    text = flow([value])
    return f"; write {text}" if len(text) <= 60 else ""


def _is_given_in(section: Mapping[str, Any], location: tuple[Any, ...]) -> bool:
    """Whether the value at `location`, or a part of it, is given in this section."""
    value: Any = section
    for depth, part in enumerate(location):
        if not isinstance(value, Mapping):
            return depth > 0
        if part not in value:
            return False
        value = value[part]
    return True


def _keys_at(location: tuple[Any, ...]) -> list[str]:
    """The keys that are declared for the section at `location`."""
    section: Any = Settings
    is_name = False  # whether the next part is a name of the author's choice, as below `models`
    for part in location:
        if is_name:
            is_name = False
            continue
        annotation = section.model_fields[part].annotation
        is_name = get_origin(annotation) is dict
        types = [annotation, *get_args(annotation)]
        types += [part for kind in types for part in get_args(kind)]
        section = next(t for t in types if isinstance(t, type) and issubclass(t, BaseModel))
    return list(section.model_fields)
