"""Numbers that cannot be true."""

from __future__ import annotations

from synthbench.errors import SynthbenchError


class ImplausibleError(SynthbenchError):
    """A measurement that cannot be true, with the reason; its cell is quarantined."""
