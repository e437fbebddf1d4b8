"""Standard streams that are closed, full, or cannot encode every character."""

from __future__ import annotations

import contextlib
import io
import os
import sys


def prepare() -> None:
    """Open closed streams on nothing, and let the others escape what they cannot encode.

    A file opened later would otherwise get the number of a closed stream, and what is printed
    would be written into it.
    """
    if sys.stdout is None or sys.stderr is None:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write what is still buffered; raises OSError where Python would print a traceback at exit."""
    sys.stdout.flush()
    sys.stderr.flush()


def silence() -> None:
    """Discard further output, which Python tries to write again at exit."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
