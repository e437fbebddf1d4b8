"""Errors inside a plug-in's methods, reported as errors of that plug-in."""

from __future__ import annotations

import contextlib
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from synthbench.errors import SynthbenchError
from synthbench.registry import text_of

OWN = "synthbench."
PACKAGE = Path(__file__).resolve().parents[1]
LIBRARIES = tuple(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")
)


@contextlib.contextmanager
def attribute_plugin_errors(cls: type, method: str) -> Iterator[None]:
    """Turn an error of a plug-in's method into a SynthbenchError that names class, file and line.

    Out-of-memory errors, and errors of the built-in mixers, are not changed.
    """
    try:
        yield
    except (SynthbenchError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if cls.__module__.startswith(OWN):
            raise
        problem = f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")
        raise SynthbenchError(
            f"{cls.__name__}.{method}() of {cls.__module__} failed: {problem} "
            f"({_line_of(error, getattr(cls, method))})"
        ) from error


def place_of(error: BaseException) -> str:
    """Where an error came from, as "in forward, my_mixers.py:9"; empty if it was not raised.

    The last line that is neither synthbench's nor a library's; without one, the last line.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    frame = next((frame for frame in reversed(frames) if not _is_foreign(frame)), frames[-1])
    return f"in {frame.name}, {Path(frame.filename).name}:{frame.lineno}"


def _line_of(error: BaseException, method: object) -> str:
    """File and line of an error, or of the method, if it cannot be called as it has to be."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    code = getattr(method, "__code__", None)
    if code is not None and Path(last.filename).resolve().is_relative_to(PACKAGE):
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    return f"{Path(last.filename).name}:{last.lineno}"


def _is_foreign(frame: traceback.FrameSummary) -> bool:
    file = Path(frame.filename).resolve()
    return any(file.is_relative_to(folder) for folder in (PACKAGE, *LIBRARIES))
