"""Which library multiplies in PyTorch, as a test has it and not as this machine."""

from __future__ import annotations

import pytest

from synthbench.backends.torch import cpu_matmul


def by_onednn(monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    """Every product of float32 by oneDNN, however small; or none."""
    monkeypatch.setattr(cpu_matmul, "onednn_is_faster", lambda: always)
    for least in ("LEAST", "LEAST_SUMMED_OF_BATCH"):
        monkeypatch.setattr(cpu_matmul, least, 0)
