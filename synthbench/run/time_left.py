"""How long the rest of a run takes, from what its cells have taken so far."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable


class TimeLeft:
    """An estimate of the time left, by cell.

    The first record of a cell also waits for what its rounds share, such as the parity check. So
    its seconds say how long cells take that were not measured yet, and those of its own process how
    long the same cell takes again.
    """

    def __init__(self) -> None:
        self._first: list[float] = []  # seconds of cells measured for the first time
        self._again: dict[str, float] = {}  # id of a cell -> expected seconds of its next record

    def add(self, cell: str, seconds: float, own_seconds: float) -> None:
        """Count a record: the seconds since the one before, and those of its own process.

        With several places at once a process can take longer than the time between two records.
        """
        if cell in self._again:
            self._again[cell] = seconds
        else:
            self._first.append(seconds)
            self._again[cell] = min(seconds, own_seconds)

    def of(self, pending: Iterable[str]) -> float | None:
        """The seconds that records of these cells take; None before the first record."""
        if not self._first:
            return None
        first, again = statistics.fmean(self._first), statistics.fmean(self._again.values())
        seconds = 0.0
        for cell, number in Counter(pending).items():
            if (own := self._again.get(cell)) is not None:
                seconds += number * own
            else:
                seconds += first + (number - 1) * again
        return seconds
