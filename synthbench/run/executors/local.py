"""The executor `local`: this machine, one cell at a time on each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from synthbench.record import Record
from synthbench.run.executors.base import Executor, Work
from synthbench.run.executors.one_place import OnePlace
from synthbench.run.executors.several_places import SeveralPlaces
from synthbench.run.places import note_of, places_of, require_places
from synthbench.run_info import Machine


class LocalExecutor(Executor):
    """One place, or several that measure at the same time: the plan's devices, or `slots`.

    `slots`: so many parts of the processor, each with cores of its own. Cells of different slots
    still share caches and memory bandwidth, so their times are noisier.
    """

    name: ClassVar[str] = "local"
    description: ClassVar[str] = "this machine, one cell at a time on each device"
    options: ClassVar[tuple[str, ...]] = ("slots",)

    def __init__(self, slots: int | None = None) -> None:
        self.slots = slots
        self.used: OnePlace | SeveralPlaces = OnePlace()

    def start(self, work: Work) -> Mapping[str, str]:
        places = places_of(work.plan, self.slots)
        require_places(work.shards, places)
        if len(places) > 1 or self.slots is not None:
            if note := note_of(places):
                work.observer.note(note)
            self.used = SeveralPlaces(places)
            return self.used.start(work)
        return self.used.start(replace(work, plan=replace(work.plan, device=places[0].device)))

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        return self.used.measure(work)

    def missing(self) -> Mapping[str, str]:
        return self.used.missing()

    def stop(self) -> None:
        self.used.stop()
