"""Errors inside a plug-in's methods, reported as errors of that plug-in."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from synthbench.errors import SynthbenchError
from synthbench.registry import text_of

OWN = "synthbench."


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
        last = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {text_of(error)}".removesuffix(": ")
        raise SynthbenchError(
            f"{cls.__name__}.{method}() of {cls.__module__} failed: {problem} "
            f"({Path(last.filename).name}:{last.lineno})"
        ) from error
