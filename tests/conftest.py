"""What every test shares."""

from __future__ import annotations

import pytest
from hypothesis import settings

from synthbench.mixers import catalog

settings.register_profile("synthbench", deadline=None)  # CI's cores are shared: no timed assertions
settings.load_profile("synthbench")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue without plug-ins, and as it was before when the test is over."""
    monkeypatch.setattr(catalog, "_plugins", {})
    monkeypatch.setattr(catalog, "_entry_points_read", True)
