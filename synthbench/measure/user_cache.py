"""Files in the user's cache: they save time, and nothing depends on them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from synthbench.measure.environment import machine_id

# What decides what code computes and how fast, beside the machine and the code itself.
DECISIVE = ("python", "pinned_to", "cpu_quota", "versions", "variables")


def user_cache(kind: str) -> Path:
    """The user's folder for cached files of a kind: in XDG_CACHE_HOME, or ~/.cache."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "synthbench" / kind


def machine_file(kind: str, environment: dict[str, Any], code: str) -> Path:
    """The file for a machine with its software, as `read_environment` gives it, and for some code.

    `code`: a digest of what the content of the file depends on.
    """
    facts = {name: environment.get(name) for name in DECISIVE}
    content = json.dumps(facts, sort_keys=True, default=str) + code
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return user_cache(kind) / f"{machine_id(environment)}-{digest}.json"


def write_cached(file: Path, content: bytes) -> None:
    """Replace a file as a whole, so that no reader meets half of it.

    Where the cache cannot be written, nothing happens: it only saves time.
    """
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.stem)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(content)
            os.replace(name, file)
        except BaseException:
            os.unlink(name)
            raise
