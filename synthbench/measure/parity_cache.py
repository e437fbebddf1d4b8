"""Parity checks that passed before on this machine with the same code, in the user's cache."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from synthbench.measure.user_cache import machine_file, write_cached
from synthbench.record import OwnLength, Parity

Check = Parity | OwnLength
CHECKS = TypeAdapter(dict[str, Check])


def parity_file(environment: dict[str, Any]) -> Path:
    """The file for a machine and its software, as `read_environment` describes them.

    Any change of the package's code leads to another file.
    """
    return machine_file("parity", environment, environment["code_sha256"])


class ParityCache:
    """Checks that passed, by their keys, in a file; without a file it keeps nothing."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.passed = self._read()

    def get(self, key: str) -> Check | None:
        """The check of a key, as it passed before; None if it has to be made."""
        return self.passed.get(_short(key))

    def keep(self, key: str, check: Check) -> None:
        """Keep a check for later runs, if it passed."""
        if self.file is None or not check.passed:
            return
        # Another run may have added some meanwhile.
        self.passed |= self._read() | {_short(key): check}
        write_cached(self.file, CHECKS.dump_json(self.passed, exclude_defaults=True))

    def _read(self) -> dict[str, Check]:
        """The checks in the file; none where it is missing or damaged."""
        if self.file is None:
            return {}
        try:
            return CHECKS.validate_json(self.file.read_bytes())
        except (OSError, ValidationError):
            return {}


def _short(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]
