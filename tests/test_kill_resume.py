"""A run that is killed at any moment loses nothing, and does nothing twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.kill_resume import kill_and_resume
from synthbench.run.extensions import load_plugin

TRIES = 5  # twenty by hand: python -m benchmarks.kill_resume


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")
@pytest.mark.usefixtures("registry")
def test_kill_at_random_moments(tmp_path: Path) -> None:
    load_plugin("tests.plugins.faulty")
    seed = 1
    found = kill_and_resume(tmp_path / "run", TRIES, seed)
    print(f"seed {seed}, moments {found.moments}, records kept {found.kept} of {found.total}")
    assert found.problems == []
    assert len(found.kept) == TRIES
    assert any(0 < kept < found.total for kept in found.kept)  # some kill came amid the measuring
