"""A digest of the code of plug-ins, which may change without a version."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from synthbench.measure.source import PACKAGE, source_digest

DIGITS = 12
ENVIRONMENT_KEY = "plugin_code"
INSTALLED = {"site-packages", "dist-packages"}  # folders of installed packages


def plugin_code(modules: Sequence[str]) -> dict[str, str]:
    """Module -> the first digits of SHA-256 of its code.

    That is its file, and those that it imports from its folder; of a package, all its Python files.
    Of modules that this process has imported; without those that have no file.
    """
    found = {}
    for name in modules:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:
            continue
        folder = Path(file).parent
        try:
            places = {"."} if Path(file).name == "__init__.py" else _files_of(name, folder)
            found[name] = source_digest(places, folder)[:DIGITS]
        except (OSError, SyntaxError):  # a file is gone, or broken, since it was imported
            continue
    return found


def _files_of(name: str, folder: Path) -> set[str]:
    """The file of a module and those in its folder, or below, that it imports: paths from there.

    Without installed packages, and without this one.
    """
    found: set[str] = set()
    todo = [name]
    while todo:
        module = sys.modules.get(todo.pop())
        path = Path(getattr(module, "__file__", None) or "")
        if module is None or not path.is_relative_to(folder) or path.is_relative_to(PACKAGE):
            continue
        inside = path.relative_to(folder)
        if path.suffix != ".py" or INSTALLED & {*inside.parts} or str(inside) in found:
            continue
        found.add(str(inside))
        if not INSTALLED & {*folder.parts}:  # beside an installed module is all that is installed
            todo += _imports(path.read_bytes(), module.__package__ or "")
    return found


def _imports(code: bytes, package: str) -> Iterator[str]:
    """The names of all modules that a file of a package may import, packages of modules too."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            try:
                start = resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # `from . import` in no package: it failed, and was caught
                continue
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:number]) for number in range(1, len(parts) + 1))


def changed_plugins(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The plug-ins whose code differs between two environments; of both it has to be known."""
    first, second = before.get(ENVIRONMENT_KEY) or {}, after.get(ENVIRONMENT_KEY) or {}
    return [name for name in first if second.get(name, first[name]) != first[name]]
