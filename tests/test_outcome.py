"""Outcomes: what an exception, or the death of a process, is taken for."""

from __future__ import annotations

import errno
import json
import signal

import pytest

from synthbench.errors import NotationError, ShapeError, SynthbenchError, UnsupportedError
from synthbench.measure.memory_prediction import TooLargeError
from synthbench.measure.plausibility import ImplausibleError
from synthbench.mixers.notation import parse
from synthbench.mixers.plugin_errors import place_of
from synthbench.run.outcome import LONGEST_REASON, classify_exception, classify_exit, shortened


class OutOfMemoryError(RuntimeError):
    """As torch's."""


class XlaRuntimeError(RuntimeError):
    """As jaxlib's."""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (MemoryError(), "oom"),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "oom"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate "
                      "memory: you tried to allocate 4 bytes"), "oom"),
        (XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), "oom"),
        (RuntimeError("std::bad_alloc"), "oom"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"), "oom"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "oom"),
        (RuntimeError("shapes do not match"), "crashed"),
        (OSError(errno.ENOENT, "no such file"), "crashed"),
        (KeyError("out of memory"), "crashed"),
        (UnsupportedError("causal linformer"), "unsupported"),
        (ShapeError("7 is odd"), "unsupported"),
        (ImplausibleError("zero"), "quarantined"),
        (TooLargeError("9 MB, and 4 MB are there"), "oom_predicted"),
        (NotationError("variant"), "crashed"),
        (SystemExit(3), "crashed"),
    ],
)  # fmt: skip
def test_exceptions(error: BaseException, outcome: str) -> None:
    found, reason = classify_exception(error)
    assert found == outcome
    assert reason


def test_a_crash_names_the_error_and_the_place() -> None:
    try:
        raise ValueError("seven\nis odd")
    except ValueError as error:
        outcome, reason = classify_exception(error)
    assert outcome == "crashed"
    assert reason.startswith("ValueError: seven | is odd (in test_a_crash_names")
    assert "test_outcome.py:" in reason


@pytest.mark.parametrize(
    ("status", "output", "kills", "outcome", "part"),
    [
        (signal.SIGKILL, "", 0, "crashed", "killed by SIGKILL"),
        (signal.SIGKILL, "", 1, "oom", "the kernel ran out of memory"),
        (signal.SIGSEGV, "", 1, "crashed", "killed by SIGSEGV"),
        (signal.SIGABRT, "oh", 0, "crashed", "killed by SIGABRT; its last output: oh"),
        (signal.SIGABRT, "what():  std::bad_alloc", 0, "oom", "bad_alloc"),
        (3 << 8, "", 0, "crashed", "exit code 3"),
        (127 << 8, "cannot allocate memory for thread-local data: ABORT", 0, "oom", "127"),
        (0, "cannot allocate memory", 0, "crashed", "exit code 0"),
    ],
)
def test_deaths(status: int, output: str, kills: int, outcome: str, part: str) -> None:
    found, reason = classify_exit(int(status), output, kills)
    assert found == outcome
    assert part in reason


def test_long_output_keeps_its_end() -> None:
    said = shortened("x" * 5000 + "\nthe end")
    assert said.endswith("the end")
    assert len(said) <= LONGEST_REASON + 4


def test_a_crash_inside_a_library_or_the_package_names_the_line_that_called_it() -> None:
    with pytest.raises(json.JSONDecodeError) as read:
        json.loads("{")
    assert place_of(read.value).startswith("in test_a_crash_inside_a_library")
    with pytest.raises(SynthbenchError) as own:
        parse("no such mixer")
    assert "test_outcome.py:" in place_of(own.value)
    assert place_of(ValueError("never raised")) == ""
