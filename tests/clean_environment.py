"""The environment of a user's shell, for commands of the documentation that run as written."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What conftest.py sets.
KEPT = ("XLA_FLAGS", "OMP_WAIT_POLICY", "XDG_CACHE_HOME", "SYNTHBENCH_CEILING_SECONDS")


def clean_environment() -> dict[str, str]:
    """Few variables, and this checkout on Python's path."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COLUMNS": "200", **kept}
