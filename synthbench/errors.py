"""The project's own exceptions: a message says what was given, what is allowed and what to do.

`cli/app.py` prints it and exits with `exit_code`; nothing else in the package exits.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

LONGEST_SHOWN = 100  # characters of a value in a message
LONGEST_COMPARED = 100  # characters of a name that is compared with known ones


class SynthbenchError(Exception):
    """A mistake or a condition that a person can act on; its text is the whole message."""

    exit_code = 2


class UnknownNameError(SynthbenchError):
    """A name that is not known; `more` follows what is known."""

    def __init__(self, kind: str, name: Any, known: Iterable[str], more: str = "") -> None:
        known = sorted(known)
        compared = name.lower()[:LONGEST_COMPARED] if isinstance(name, str) else ""
        near = difflib.get_close_matches(compared, [k.lower() for k in known], n=3, cutoff=0.5)
        near = [k for k in known if k.lower() in near]
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        all_known = f"Known: {', '.join(known)}" if known else "None is known"
        super().__init__(f"{kind} {quote(name)} not known.{hint} {all_known}{more}")


class NotationError(SynthbenchError):
    """A variant, suite or option that cannot be read."""


class ShapeError(SynthbenchError):
    """Sizes that do not fit together."""


class UnsupportedError(SynthbenchError):
    """A combination that has no meaning or no implementation, with the reason."""


class WrongOutputError(SynthbenchError):
    """An output that is not what a mixer must return; its cell is quarantined."""


class PackageMissingError(SynthbenchError):
    """An optional package that is not installed."""


class DataError(SynthbenchError):
    """Data to learn from that is missing, wrong or out of reach."""


class DivergedError(SynthbenchError):
    """A training whose loss is no longer finite."""


class DeviceLostError(SynthbenchError):
    """A process that used one of several devices for a training, and has ended."""


class ResultsError(SynthbenchError):
    """A results folder or a record that cannot be read or written."""


class FrameworkMissingError(SynthbenchError):
    """A framework or a device that is not available here."""


def quote(value: Any) -> str:
    """A value as messages quote it: on one line, without the middle of a long one."""
    if isinstance(value, str):
        if len(value) <= LONGEST_SHOWN:
            return repr(value)
        half = LONGEST_SHOWN // 2
        return f"{value[:half]!r}...{value[-half:]!r} ({len(value)} characters)"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of too many digits, or a repr that fails
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
