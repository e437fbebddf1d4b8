"""Freed memory that is kept costs no page faults when it is taken again."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from synthbench.measure.allocator import keep_freed_memory

MEGABYTES = 96  # more than glibc would ever keep by itself
PAGES = MEGABYTES * 2**20 // resource.getpagesize()


def faults_of_a_step() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = np.empty(MEGABYTES * 2**20, dtype=np.uint8)
    block[:: resource.getpagesize()] = 1
    del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def compare() -> None:
    # numpy asks for huge pages, which fault once for many; the cells' frameworks do not
    given_back = [faults_of_a_step() for _ in range(3)]
    assert min(given_back) > PAGES / 600, given_back
    assert keep_freed_memory()
    faults_of_a_step()
    kept = [faults_of_a_step() for _ in range(3)]
    assert max(kept) < 8, kept


def test_a_c_library_without_these_settings_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert keep_freed_memory() is False


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
def test_what_is_kept_is_taken_again_without_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.test_allocator import compare; compare()"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
