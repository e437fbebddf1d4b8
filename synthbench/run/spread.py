"""Spread a plan over several devices or slots, so that what is compared stays together.

The same plan is always spread in the same way: a run that is continued measures each cell where it
was measured before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from synthbench.devices import device_kind, index_of
from synthbench.errors import NotationError
from synthbench.record import Record, latest
from synthbench.run.shard import Shard, grouped
from synthbench.suites.cell import COMPARED, Cell
from synthbench.suites.plan import Plan

# What should be on one device, as far as every device has something to measure: curves over the
# length and both modes, which tables have beside each other; then only what ratios are taken
# across, and seeds, which tables pool.
TOGETHER = (
    (*COMPARED, "seed", "mode", "seq_len", "max_len"),
    (*COMPARED, "seed", "mode"),
    (*COMPARED, "seed"),
)


def spread_over_devices(plan: Plan, devices: Sequence[str]) -> Plan:
    """The plan with each cell on one of the devices, or on one and those that follow it.

    Raises NotationError where cells share more devices than follow each other.
    """
    size = most_devices(plan.cells)
    given, devices = devices, blocks(devices, size)
    every = [*plan.cells, *(skip.cell for skip in plan.skipped)]
    ways = [grouped(every, together) for together in TOGETHER]
    groups = next((way for way in ways if len(way) >= len(devices)), ways[-1])
    device_of = {
        cell.id: devices[place]
        for group, place in zip(groups, deal(groups, len(devices)), strict=True)
        for cell in group
    }
    idle = [device for device in devices if device not in device_of.values()]
    notes = list(plan.notes)
    if idle:
        notes.append(
            f"nothing to measure on {', '.join(idle)}: all cells left are compared with each other"
        )
    if size > 1:
        notes.append(
            f"cells share up to {size} devices: one cell at a time from each of "
            f"{', '.join(devices)} on"
        )
    return replace(
        plan,
        notes=tuple(notes),
        device=",".join(given),
        cells=tuple(cell.changed(device=device_of[cell.id]) for cell in plan.cells),
        skipped=tuple(
            replace(skip, cell=skip.cell.changed(device=device_of[skip.cell.id]))
            for skip in plan.skipped
        ),
    )


def on_any_of(plan: Plan, devices: Sequence[str]) -> Plan:
    """The plan for several devices, with each cell on all of them, in different rounds.

    Raises NotationError where cells share devices: each of their rounds would need several.
    """
    if (shared := most_devices(plan.cells)) > 1:
        raise NotationError(
            f"measure.machines spreads rounds over single devices, and cells of this plan share "
            f"{shared} (axis devices); leave one of the two out"
        )
    kind = device_kind(devices[0]).name
    return replace(
        plan,
        device=",".join(devices),
        cells=tuple(cell.changed(device=kind) for cell in plan.cells),
        skipped=tuple(replace(skip, cell=skip.cell.changed(device=kind)) for skip in plan.skipped),
    )


def most_devices(cells: Iterable[Cell]) -> int:
    """How many devices the largest of some cells share."""
    return max((cell.devices for cell in cells), default=1)


def blocks(devices: Sequence[str], size: int) -> list[str]:
    """The first of each `size` devices that follow each other, as cells share them.

    Raises NotationError if there are none.
    """
    if size == 1:
        return list(devices)
    found: list[str] = []
    block: list[str] = []
    for device in sorted(devices, key=index_of):
        if block and index_of(device) != index_of(block[-1]) + 1:
            block = []
        block.append(device)
        if len(block) == size:
            found.append(block[0])
            block = []
    if not found:
        raise NotationError(
            f"--device {','.join(devices)}: cells of this plan share {size} devices that follow "
            f"each other (axis devices); give {size} such, or set devices to 1"
        )
    return found


def deal(groups: Sequence[Iterable[Cell]], places: int) -> list[int]:
    """The place of each group, from 0: about equally many cells in each, long and short ones.

    Cells take about equally long by the limits of a suite; the longest groups are dealt first.
    """
    sizes = [(len(cells), _tokens(cells)) for cells in map(list, groups)]
    counts = [0] * places
    found = [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda n: sizes[n][1], reverse=True):
        place = counts.index(min(counts))
        found[number] = place
        counts[place] += sizes[number][0]
    return found


def deal_shards(shards: Sequence[Shard], places: int) -> list[int]:
    """The place of each shard: the rounds of the same cells each go to another one."""
    groups = {shard.siblings: shard.cells for shard in shards}
    first = dict(zip(groups, deal(list(groups.values()), places), strict=True))
    return [(first[shard.siblings] + shard.part) % places for shard in shards]


def note_on_machines(shards: Sequence[Shard], records: Iterable[Record]) -> str:
    """A note where rounds were spread over fewer machines than asked for; else empty."""
    used: dict[str, set[str]] = {}
    for record in latest(records):
        if record.machine:
            used.setdefault(record.id, set()).add(record.machine)
    groups = {shard.siblings: shard for shard in shards}
    few = [
        shard
        for shard in groups.values()
        if 0 < len(set[str]().union(*(used.get(c.id, ()) for c in shard.cells))) < shard.parts
    ]
    if not few:
        return ""
    return (
        f"the rounds of {len(few)} of {len(groups)} shards were measured on fewer than "
        f"{few[0].parts} machines; their intervals have the machines that there were"
    )


def _tokens(cells: Iterable[Cell]) -> int:
    return sum(cell.batch * cell.seq_len for cell in cells)
