"""Peak memory on a CPU, where the truth is known beforehand."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from synthbench.measure import memory
from synthbench.measure.memory import mark_resident

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
TOLERANCE = 2 * 10**6


def fresh(call: str) -> None:
    """Make a call of this module in a process of its own, as a cell has: this one has room left
    from the tests before."""
    done = subprocess.run(
        [sys.executable, "-c", f"from tests import test_memory as t; t.{call}"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@linux
@pytest.mark.parametrize("megabytes", [8, 64, 200])
def test_a_known_allocation_is_seen_after_it_is_freed(megabytes: int) -> None:
    fresh(f"allocate({megabytes})")


def allocate(megabytes: int) -> None:
    mark = mark_resident()
    block = np.ones(megabytes * 10**6, dtype=np.uint8)
    del block
    assert mark.method == "reset"
    assert abs(mark.rise() - megabytes * 10**6) <= max(TOLERANCE, 0.03 * megabytes * 10**6)


@linux
def test_what_was_freed_before_the_mark_does_not_count() -> None:
    fresh("free_before()")


def free_before() -> None:
    block = np.ones(100 * 10**6, dtype=np.uint8)
    pieces = [b"\1" * (250_000 + n) for n in range(200)]  # below the size that is mapped apart
    del block, pieces
    mark = mark_resident()
    assert mark.rise() <= TOLERANCE
    again = [b"\1" * (250_000 + n) for n in range(200)]
    assert abs(mark.rise() - 50 * 10**6) <= TOLERANCE
    del again


@linux
def test_what_a_collection_would_free_in_the_step_makes_no_room_there() -> None:
    fresh("collect_in_the_step()")


def collect_in_the_step() -> None:
    cycle: list[object] = [np.ones(100 * 10**6, dtype=np.uint8)]
    cycle.append(cycle)
    del cycle
    mark = mark_resident()
    gc.collect()  # as a step may, and as JAX does for what it has copied to the device
    block = np.ones(60 * 10**6, dtype=np.uint8)
    assert abs(mark.rise() - 60 * 10**6) <= TOLERANCE
    del block


@linux
def test_what_stays_resident_does_not_count() -> None:
    held = np.ones(80 * 10**6, dtype=np.uint8)
    mark = mark_resident()
    held += 1
    assert mark.rise() <= TOLERANCE


@linux
def test_file_pages_touched_for_the_first_time_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "library"
    path.write_bytes(bytes(30 * 10**6))
    mark = mark_resident()
    pages = np.memmap(path, dtype=np.uint8, mode="r")
    assert int(pages.sum()) == 0
    assert mark.rise() <= TOLERANCE


@linux
def test_without_a_reset_the_method_says_so() -> None:
    fresh("allocate_without_a_reset()")


def allocate_without_a_reset() -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        (Path(folder) / "file").write_text("")
        patch.setattr(memory, "CLEAR_REFS", Path(folder) / "file" / "clear_refs")
        mark = mark_resident()
        block = np.ones(64 * 10**6, dtype=np.uint8)
        assert "clear_refs is not writable" in mark.description
        assert mark.zero_is_possible
        assert mark.rise() >= 0.9 * block.size  # an earlier, higher peak would show as less


def test_without_proc_there_is_a_lower_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "absent" / "clear_refs")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    peaks = iter([50, 80])  # of the process's life, before and after
    monkeypatch.setattr(memory, "_max_resident", lambda: next(peaks))
    mark = mark_resident()
    assert "lower bound" in mark.description
    assert mark.zero_is_possible
    assert mark.rise() == 30
