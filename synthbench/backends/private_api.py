"""What a framework does not promise to keep: its private API."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from typing import Any

from synthbench.errors import UnsupportedError


def require_private_api(path: str, purpose: str) -> Any:
    """The object at a dotted path, which a framework does not promise to keep.

    Raises UnsupportedError, as `private_api_error` words it, if it is not there.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise private_api_error(path, purpose) from None


def private_api_error(path: str, purpose: str) -> UnsupportedError:
    """The error for a private API that the installed framework no longer has."""
    package = path.partition(".")[0]
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        installed = "(unknown version)"
    return UnsupportedError(
        f"{package} {installed} has no {path} as synthbench uses it to {purpose}; "
        f"synthbench is tested with {tested_versions(package)}; install one of these versions"
    )


def tested_versions(package: str) -> str:
    """The versions of a framework that synthbench's own package metadata allows."""
    try:
        declared = importlib.metadata.requires("synthbench") or []
    except importlib.metadata.PackageNotFoundError:
        declared = []
    for line in declared:
        requirement = re.match(rf"{package}\s*(?P<range>[<>=!~][^;]*)", line)
        if requirement:  # the metadata has the bounds in any order
            bounds = [bound.strip() for bound in requirement["range"].split(",")]
            return f"{package} " + ", ".join(sorted(bounds, key=lambda bound: bound[0] == "<"))
    return f"the versions of {package} in its pyproject.toml"
