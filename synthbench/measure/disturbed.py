"""Which measurements something disturbed, as far as their records show it."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from synthbench.measure.core_distance import are_far
from synthbench.record import Record, latest

Place = tuple[str, int]  # the id of a cell, and a round

CORES_FAR = "the cores were far apart, unlike those of most cells"
# The fixed product took this many times as long as beside most cells: another machine had a part of
# this one. The fastest of a cell counts, since JAX's threads at times wake on one core. In four
# runs on two machines it was at most 1.35 in nearly all cells, and 1.6 to 2.6 in 16 others.
SLOW = 1.5


def disturbed(records: Iterable[Record]) -> set[Place]:
    """Cell and round of what was disturbed in its last attempt."""
    return set(disturbances(records))


def disturbances(records: Iterable[Record]) -> dict[Place, list[str]]:
    """What disturbed cells in their last attempt: their warnings, or what other cells tell.

    A cell is disturbed too if its cores were far apart, where most cells of the same machine had
    near ones: it was timed on another machine, in effect. Where the cores of most are far, that is
    the machine. And if the fastest fixed product between its samples took SLOW times as long as in
    the median of the cells of its machine, framework and number of devices.
    """
    ok = [record for record in latest(records) if record.outcome == "ok"]
    found = {(record.id, record.round): list(record.warnings) for record in ok}
    for record, text in (*_far(ok), *_slow(ok)):
        if not record.warnings:
            found[record.id, record.round].append(text)
    return {place: texts for place, texts in found.items() if texts}


def cores_far(record: Record) -> bool | None:
    """Whether cores were far apart before or after the samples; None if that is not known."""
    timing = record.measurements.timing
    if timing is None or timing.core_distances is None:
        return None
    return are_far(*timing.core_distances)


def _far(records: Iterable[Record]) -> list[tuple[Record, str]]:
    by_machine = defaultdict(list)
    for record in records:
        if (far := cores_far(record)) is not None:
            by_machine[record.machine].append((record, far))
    found = []
    for known in by_machine.values():
        far_ones = [(record, CORES_FAR) for record, far in known if far]
        if 2 * len(far_ones) < len(known):
            found += far_ones
    return found


def _slow(records: Iterable[Record]) -> list[tuple[Record, str]]:
    by_product = defaultdict(list)
    for record in records:
        timing = record.measurements.timing
        if timing is not None and timing.calibration is not None and timing.calibration.seconds:
            fastest = min(timing.calibration.seconds)
            # PyTorch's devices share the cores of a CPU: the product has those of one of them.
            kind = record.cell.framework, record.cell.devices
            by_product[record.machine, kind].append((record, fastest))
    slow = []
    for known in by_product.values():
        usual = statistics.median(seconds for _, seconds in known)
        slow += [
            (record, f"the machine was slow: a fixed product took {seconds / usual:.1f} times as "
             "long as beside most cells")
            for record, seconds in known
            if seconds > SLOW * usual
        ]  # fmt: skip
    return slow
