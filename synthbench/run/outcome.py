"""Classify how a cell ended: the outcome and its reason, from an exception or a dead process."""

from __future__ import annotations

import errno
import os
import signal

from synthbench.errors import (
    DivergedError,
    ShapeError,
    SynthbenchError,
    UnsupportedError,
    WrongOutputError,
)
from synthbench.measure.memory_prediction import TooLargeError
from synthbench.measure.plausibility import ImplausibleError
from synthbench.mixers.plugin_errors import place_of
from synthbench.record import Outcome

# What the allocators of torch, XLA, CUDA, NumPy and C++ say, in lower case.
OUT_OF_MEMORY = (
    "out of memory",
    "out_of_memory",
    "can't allocate memory",
    "cannot allocate memory",
    "unable to allocate",
    "failed to allocate",
    "resource_exhausted",
    "bad_alloc",
    "alloc_failed",
)
LONGEST_REASON = 600


def classify_exception(error: BaseException) -> tuple[Outcome, str]:
    """Outcome and reason of what a job raised."""
    if isinstance(error, ImplausibleError | WrongOutputError):
        return "quarantined", str(error)
    if isinstance(error, TooLargeError):
        return "oom_predicted", str(error)
    if isinstance(error, DivergedError):
        return "diverged", str(error)
    if isinstance(error, ShapeError | UnsupportedError):
        return "unsupported", str(error)
    if isinstance(error, SynthbenchError):
        return "crashed", str(error)
    text = f"{type(error).__name__}: {error}".strip(": ")
    if is_out_of_memory(error):
        return "oom", shortened(text)
    where = place_of(error)
    return "crashed", shortened(text) + (f" ({where})" if where else "")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    of_framework = isinstance(error, RuntimeError | ValueError)
    return of_framework and _mentions(str(error))


def classify_exit(status: int, output: str, oom_kills: int) -> tuple[Outcome, str]:
    """Outcome and reason of a child that ended without a result.

    `status` is its wait status, `output` the end of what it printed, `oom_kills` how many
    processes the kernel killed for memory in that time.
    """
    last_words = f"; its last output: {shortened(output)}" if output.strip() else ""
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        ran_out = code != 0 and _mentions(output)
        return "oom" if ran_out else "crashed", f"ended with exit code {code}{last_words}"
    number = os.WTERMSIG(status)
    killed = f"killed by {signal.Signals(number).name}"
    if number == signal.SIGKILL and oom_kills > 0:
        return "oom", f"{killed}: the kernel ran out of memory{last_words}"
    ran_out = number == signal.SIGABRT and _mentions(output)
    return "oom" if ran_out else "crashed", killed + last_words


def shortened(text: str) -> str:
    """The end of a text on one line; the beginning is cut if it is too long."""
    line = " | ".join(part.strip() for part in text.strip().splitlines() if part.strip())
    return line if len(line) <= LONGEST_REASON else f"... {line[-LONGEST_REASON:]}"


def _mentions(text: str) -> bool:
    lower = text.lower()
    return any(phrase in lower for phrase in OUT_OF_MEMORY)
