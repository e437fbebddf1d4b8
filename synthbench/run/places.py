"""Places of one machine that measure at the same time: devices, or slots of a processor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from synthbench.devices import is_host
from synthbench.errors import NotationError, UnsupportedError
from synthbench.measure.environment import usable_cores
from synthbench.run.shard import Shard
from synthbench.run.spread import most_devices
from synthbench.suites.plan import Plan

CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Place:
    """A device, and the cores that no other place of the run uses; empty: all of them."""

    name: str  # as cuda:1, or slot 1 of 2
    device: str
    cores: tuple[int, ...]

    def enter(self) -> None:
        """Keep this thread, and the processes that it starts, to the cores of the place."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """`enter` for a while; then this thread may use the cores that it had before."""
        before = os.sched_getaffinity(0) if self.cores else None
        self.enter()
        try:
            yield
        finally:
            if before is not None:
                os.sched_setaffinity(0, before)


def places_of(plan: Plan, slots: int | None) -> list[Place]:
    """The places of a plan: one per device that has cells, or that many slots of the processor.

    Raises NotationError for slots that there cannot be, and UnsupportedError where the system
    cannot keep a process to some cores.
    """
    used = {cell.device for cell in plan.cells}
    # Cells whose rounds are spread over the devices are on none of them in the plan.
    devices = [device for device in plan.devices if device in used] or list(plan.devices)
    if slots is None:
        parts = split_cores(len(devices)) or [()] * len(devices)
        return [Place(*each) for each in zip(devices, devices, parts, strict=True)]
    if not is_host(plan.device):
        raise NotationError(
            f"--slots divides the processor, and this run is on {plan.device}; leave it out: "
            "several devices are measured at the same time anyhow"
        )
    if not hasattr(os, "sched_setaffinity"):
        raise UnsupportedError("--slots: this system cannot keep a process to some cores")
    parts = split_cores(slots) if slots > 0 else []
    if not parts:
        raise NotationError(
            f"--slots {slots}: give 1 to {len(_physical(usable_cores()))}, one per physical core"
        )
    shared, cores = most_devices(plan.cells), len(parts[0])
    if shared > cores:
        raise NotationError(
            f"--slots {slots} gives each slot {cores} core{'s' * (cores != 1)}, but cells of this "
            f"plan share {shared} devices (axis devices), each of a core at least; give fewer "
            "slots, or leave --slots out"
        )
    return [
        Place(f"slot {number} of {slots}", plan.device, cores)
        for number, cores in enumerate(parts, start=1)
    ]


def require_places(shards: Sequence[Shard], places: Sequence[Place]) -> None:
    """Raise NotationError where rounds are to be spread over more places than there are."""
    wanted = len({shard.part for shard in shards})
    if wanted > len(places):
        more = "--slots" if is_host(places[0].device) else "--device with several devices"
        raise NotationError(
            f"measure.machines: {wanted} spreads rounds over {wanted} machines, and this run has "
            f"{len(places)}; give {more}, or an executor for a cluster (--executor slurm, ray)"
        )


def note_of(places: Sequence[Place]) -> str:
    """What a user should know of numbers that were measured in slots; empty without slots."""
    if not is_host(places[0].device):
        return ""
    cores = len(places[0].cores)
    return (
        f"{len(places)} slots with {cores} core{'s' * (cores != 1)} each: cells that are measured "
        "at the same time share caches and memory bandwidth, so times are longer and noisier than "
        "without --slots; compare them only with runs that have the same slots"
    )


def split_cores(parts: int) -> list[tuple[int, ...]]:
    """The usable cores in so many equal parts; what is left over is in none.

    The threads of a physical core stay together. Empty if there are fewer cores than parts, or the
    system cannot keep a process to some of them.
    """
    cores = _physical(usable_cores())
    each = len(cores) // parts
    if not each or not hasattr(os, "sched_setaffinity"):
        return []
    blocks = [cores[start * each : (start + 1) * each] for start in range(parts)]
    return [tuple(sorted(core for threads in block for core in threads)) for block in blocks]


def _physical(cores: Sequence[int]) -> list[list[int]]:
    """The cores of each physical core."""
    found: dict[str, list[int]] = {}
    for core in cores:
        try:
            name = (CPUS / f"cpu{core}/topology/thread_siblings_list").read_text()
        except OSError:
            name = str(core)
        found.setdefault(name, []).append(core)
    return list(found.values())
