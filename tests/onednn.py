"""Choose the library for matrix products in PyTorch, whoever made this processor."""

from __future__ import annotations

import pytest

from synthbench.backends.torch import cpu_matmul


def by_onednn(monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    """All float32 products by oneDNN, even small ones, or none."""
    monkeypatch.setattr(cpu_matmul, "made_by_intel", lambda: not always)
    for least in ("LEAST", "LEAST_SUMMED_OF_BATCH"):
        monkeypatch.setattr(cpu_matmul, least, 0)
