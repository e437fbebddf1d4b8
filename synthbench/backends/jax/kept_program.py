"""Compiled programs in files, for other processes."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

from jax.experimental.serialize_executable import deserialize_and_load, serialize


def keep_program(file: Path, executable: Any, facts: Any = None) -> None:
    """Keep a program with facts about it, unless that fails: Python functions in it can raise."""
    with suppress(Exception):
        content = pickle.dumps((serialize(executable), facts))
        part = file.with_name(f"{file.name}.part")
        part.write_bytes(content)
        part.replace(file)


def load_program(file: Path) -> tuple[Any, Any] | None:
    """The program and the facts of `keep_program`; None if this process cannot use them."""
    if not file.exists():
        return None
    try:
        serialized, facts = pickle.loads(file.read_bytes())
        return deserialize_and_load(*serialized), facts
    except Exception:  # whatever it is, the program can still be compiled
        return None
