"""A digest of the code of plug-ins, which may change without a version."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synthbench.measure.source import source_digest

DIGITS = 12
ENVIRONMENT_KEY = "plugin_code"
INSTALLED = {"site-packages", "dist-packages"}  # folders of installed packages


def plugin_code(modules: Sequence[str]) -> dict[str, str]:
    """Module -> the first digits of SHA-256 of its code.

    That is its file, and what it imported from beside it; of a package, all its Python files. Of
    modules that this process has imported; without those that have no file.
    """
    found = {}
    for name in modules:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:
            continue
        path = Path(file)
        places = ["."] if path.name == "__init__.py" else [path.name, *_beside(path)]
        try:
            found[name] = source_digest(dict.fromkeys(places), path.parent)[:DIGITS]
        except OSError:  # the file is gone since it was imported
            continue
    return found


def _beside(path: Path) -> list[str]:
    """The files of imported modules in the folder of a module, and below, relative to it.

    Without installed packages, and without this one.
    """
    if INSTALLED & {*path.parts}:
        return []
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if not file.endswith(".py") or name.partition(".")[0] == __name__.partition(".")[0]:
            continue
        if Path(file).is_relative_to(path.parent):
            inside = Path(file).relative_to(path.parent)
            if not INSTALLED & {*inside.parts}:
                found.append(str(inside))
    return found


def changed_plugins(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The plug-ins whose code differs between two environments; of both it has to be known."""
    first, second = before.get(ENVIRONMENT_KEY) or {}, after.get(ENVIRONMENT_KEY) or {}
    return [name for name in first if second.get(name, first[name]) != first[name]]
