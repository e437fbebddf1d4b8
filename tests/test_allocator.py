"""Freed memory that is kept costs no page faults when it is taken again."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from synthbench.measure.allocator import ONE_ARENA, keep_freed_memory
from synthbench.run.host_client import NO_FRAMEWORK, Host

MEGABYTES = 96  # more than glibc would ever keep by itself
PAGES = MEGABYTES * 2**20 // resource.getpagesize()


def faults_of_a_step() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = np.empty(MEGABYTES * 2**20, dtype=np.uint8)
    block[:: resource.getpagesize()] = 1
    del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def faults_in_a_thread() -> int:
    """As XLA allocates: not in the thread that the process began with."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: [faults_of_a_step() for _ in range(3)][-1]).result()


def compare_threads() -> None:
    assert keep_freed_memory()
    found = faults_in_a_thread()
    kept = os.environ.get("MALLOC_ARENA_MAX") == "1"
    assert (found < 8) if kept else (found > PAGES / 600), found


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


def run_here(function: str, variables: dict[str, str] | None = None) -> None:
    """Call a function of this module in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.test_allocator import {function}; {function}()"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120, check=False,
        env=dict(os.environ) | (variables or {}),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
def test_what_is_kept_is_taken_again_without_faults() -> None:
    run_here("compare")


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
@pytest.mark.parametrize("variables", [{}, ONE_ARENA], ids=["an arena each", "one arena"])
def test_what_other_threads_free_is_kept_in_a_process_with_one_arena(
    variables: dict[str, str],
) -> None:
    run_here("compare_threads", variables)


def test_hosts_have_one_arena_whatever_is_set_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "8")
    with Host(NO_FRAMEWORK) as host:
        assert host.call("os:getenv", {"key": "MALLOC_ARENA_MAX"}) == "1"
