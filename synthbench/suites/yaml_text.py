"""Read the YAML text of a suite file; whatever is wrong with it becomes one message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from synthbench.errors import NotationError, quote
from synthbench.suites.yaml_mistakes import describe

MAX_VALUES = 100_000  # in one file, with aliases written out: more than anybody writes by hand
MAX_CHARACTERS = 100_000  # of one file; PyYAML may need seconds for as many
MAX_DEPTH = 50  # lists and mappings within each other
MAX_DIGITS = 1000  # of an integer, in any base
MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may stand beside the keys that it adds


def read_yaml(text: str, source: str) -> Any:
    """The content of a YAML file; raises NotationError with the file and what is wrong."""
    if len(text) > MAX_CHARACTERS:
        raise NotationError(
            f"{source}: {len(text)} characters; a suite file has at most {MAX_CHARACTERS}"
        )
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is not None:
            _require_tree(source, node)
        content = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise NotationError(f"{source}: not valid YAML: {describe(error)}") from error
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


def _require_tree(source: str, root: yaml.Node) -> None:
    """NotationError where an alias contains itself, or where aliases multiply without limit.

    It looks at nodes, since PyYAML writes the aliases of merged keys out while it makes values of
    them. Each node is looked at once, however many aliases refer to it.
    """
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size(node: yaml.Node, path: tuple[str, ...]) -> int:
        if id(node) in above:
            raise NotationError(
                f"{source}: {'.'.join(path)}: circular YAML alias; write its value out"
            )
        if isinstance(node, yaml.ScalarNode) and not is_unicode(node.value):
            where = f"{'.'.join(path)}: " if path else ""
            raise NotationError(f"{source}: {where}{quote(node.value)} is not valid Unicode")
        if id(node) not in sizes:
            above.add(id(node))
            sizes[id(node)] = 1 + sum(size(part, (*path, name)) for part, name in _parts(node))
            above.remove(id(node))
        if sizes[id(node)] > MAX_VALUES:
            raise NotationError(
                f"{source}: more than {MAX_VALUES} values with aliases written out; use fewer"
            )
        return sizes[id(node)]

    size(root, ())


def _parts(node: yaml.Node) -> Iterator[tuple[yaml.Node, str]]:
    """What a node consists of, each with its name in a path."""
    if isinstance(node, yaml.SequenceNode):
        yield from ((part, str(number)) for number, part in enumerate(node.value))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            yield key, name
            yield value, name


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a repeated key is an error instead of a silent overwrite.

    Every key becomes a text, as messages show it: 3 and 2024-01-01 are then unknown keys.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flat: set[int] = set()  # mappings whose merged keys stand beside their own already
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(
                None,
                None,
                "nested too deeply",
                self.get_mark(),
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_yaml_int(self, node: Any) -> int:
        if len(self.construct_scalar(node)) > MAX_DIGITS:
            raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
        return int(super().construct_yaml_int(node))

    def flatten_mapping(self, node: Any) -> None:
        if id(node) in self._flat:
            return
        self._flat.add(id(node))
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
        super().flatten_mapping(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        return {_as_text(key): value for key, value in mapping.items()}


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


def _as_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, int | float) else str(key)
