"""A digest of the package's own code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def source_digest(places: Iterable[str] = (".",), root: Path = PACKAGE) -> str:
    """SHA-256 of Python files of the package, and of those in its folders; by default of all.

    Raises OSError for a place that is missing.
    """
    digest = hashlib.sha256()
    for file in sorted(file for place in places for file in _python_files(root / place)):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _python_files(place: Path) -> Iterable[Path]:
    return place.rglob("*.py") if place.is_dir() else (place,)
