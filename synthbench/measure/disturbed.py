"""Which measurements something disturbed, as far as their records show it."""

from __future__ import annotations

from collections.abc import Iterable

from synthbench.measure.core_distance import FAR
from synthbench.record import Record, latest


def disturbed(records: Iterable[Record]) -> set[tuple[str, int]]:
    """Cell and round of what was disturbed in its last attempt.

    So is a cell whose cores were far apart, where most cells of the same machine had near ones: it
    was timed on another machine, in effect. Where the cores of most are far, that is the machine.
    """
    found = [r for r in latest(records) if r.outcome == "ok"]
    by_machine: dict[str, list[bool]] = {}
    for record in found:
        if (far := cores_far(record)) is not None:
            by_machine.setdefault(record.machine, []).append(far)
    near = {machine for machine, far in by_machine.items() if 2 * sum(far) < len(far)}
    return {
        (r.id, r.round)
        for r in found
        if r.measurements.warnings or (r.machine in near and cores_far(r))
    }


def cores_far(record: Record) -> bool | None:
    """Whether cores were far apart before or after the samples; None if that is not known."""
    timing = record.measurements.timing
    if timing is None or timing.core_distances is None:
        return None
    return max(timing.core_distances) > FAR
