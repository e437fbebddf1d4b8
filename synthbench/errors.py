"""The project's own exceptions: each message says what was got, what is known, and what to do.

`cli.py` prints the message and exits with `exit_code`; nothing else in the package exits.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SynthbenchError(Exception):
    """A mistake or a condition that a person can act on; its text is the whole message."""

    exit_code = 2


class UnknownNameError(SynthbenchError):
    """A name that is in no catalogue."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=3, cutoff=0.5)
        near = [k for k in known if k.lower() in near]
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"{kind} {name!r} not known.{hint} Known: {', '.join(known)}")


class NotationError(SynthbenchError):
    """A variant, suite or option that cannot be read."""


class ShapeError(SynthbenchError):
    """Sizes that do not fit together."""


class UnsupportedError(SynthbenchError):
    """A combination that has no meaning or no implementation, with the reason."""


class PackageMissingError(SynthbenchError):
    """An optional package that this environment does not have."""


class ResultsError(SynthbenchError):
    """A results folder or a record that cannot be read or written."""


class FrameworkMissingError(SynthbenchError):
    """A framework or a device that this environment does not have."""
