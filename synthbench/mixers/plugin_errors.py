"""Methods of mixers that others wrote, called so that what fails in them is named as theirs."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from synthbench.errors import SynthbenchError

OWN = "synthbench."


@contextlib.contextmanager
def attribute_plugin_errors(cls: type, method: str) -> Iterator[None]:
    """Turn what a plug-in's method raises into a SynthbenchError that says whose it is, and where.

    Running out of memory, and whatever the project's own mixers raise, stays what it is.
    """
    try:
        yield
    except (SynthbenchError, MemoryError):
        raise
    except Exception as error:
        if cls.__module__.startswith(OWN):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise SynthbenchError(
            f"{cls.__name__}.{method}() of {cls.__module__} failed: {problem} "
            f"({Path(last.filename).name}:{last.lineno})"
        ) from error
