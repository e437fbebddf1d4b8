"""Read the YAML text of a suite file; whatever is wrong with it becomes one message."""

from __future__ import annotations

import json
from typing import Any

import yaml

from synthbench.errors import NotationError, quote

MAX_VALUES = 100_000  # in one file, with aliases written out: more than anybody writes by hand
MAX_BITS = 1024  # of an integer
MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may stand beside the keys that it adds
IN_BRACKETS = "while parsing a flow sequence"  # how PyYAML begins what is wrong in [...]


def read_yaml(text: str, source: str) -> Any:
    """The content of a YAML file; raises NotationError with the file and what is wrong."""
    try:
        content = yaml.load(text, _Loader)
        _require_tree(source, content)
    except yaml.YAMLError as error:
        hint = ""
        if str(error).startswith(IN_BRACKETS):
            hint = '\nInside [...], quote a variant that has a comma or a bracket: ["FR(rank=[8])"]'
        raise NotationError(f"{source}: not valid YAML: {error}{hint}") from error
    except RecursionError:
        raise NotationError(f"{source}: not valid YAML: nested too deeply") from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        # PyYAML lets these through for a date, a number or a tag that it cannot read
        raise NotationError(
            f"{source}: not valid YAML: a number, date or tag cannot be read: {error}"
        ) from error
    return content


def kind_of(value: Any) -> str:
    """What a value of a YAML file is called in messages."""
    names: dict[type, str] = {list: "a list", str: "a text"}
    return names.get(type(value), "a single value")


def is_unicode(text: str) -> bool:
    """Whether a text can be written: it has no lone surrogates."""
    return all(not "\ud800" <= character <= "\udfff" for character in text)


def _require_tree(source: str, content: Any) -> None:
    """NotationError where an alias contains itself, or where aliases multiply without limit."""
    seen = 0

    def require_unicode(text: str, path: tuple[str, ...]) -> None:
        if not is_unicode(text):
            where = f"{'.'.join(path)}: " if path else ""
            raise NotationError(f"{source}: {where}{quote(text)} is not valid Unicode")

    def visit(value: Any, path: tuple[str, ...], above: tuple[int, ...]) -> None:
        nonlocal seen
        seen += 1
        if id(value) in above:
            raise NotationError(
                f"{source}: {'.'.join(path)}: circular YAML alias; write its value out"
            )
        if seen > MAX_VALUES:
            raise NotationError(
                f"{source}: more than {MAX_VALUES} values with aliases written out; use fewer"
            )
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise NotationError(f"{source}: {'.'.join(path)}: the number has too many digits")
        if isinstance(value, str):
            require_unicode(value, path)
        if isinstance(value, dict | list):
            entries = value.items() if isinstance(value, dict) else enumerate(value)
            for key, entry in entries:
                require_unicode(str(key), path)
                visit(entry, (*path, str(key)), (*above, id(value)))

    visit(content, (), ())


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a repeated key is an error instead of a silent overwrite.

    Every key becomes a text, as messages show it: 3 and 2024-01-01 are then unknown keys.
    """

    def flatten_mapping(self, node: Any) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_VALUES:  # merges of merges multiply
            raise yaml.constructor.ConstructorError(
                None, None, f"more than {MAX_VALUES} merged values", node.start_mark
            )

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE:
                continue
            key = _as_text(self.construct_object(key_node, deep=True))
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {quote(key)} is given twice", key_node.start_mark
                )
            seen.add(key)
        mapping = super().construct_mapping(node, deep)
        return {_as_text(key): value for key, value in mapping.items()}


def _as_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, int | float) else str(key)
