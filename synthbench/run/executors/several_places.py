"""Measure work in several places of this machine at the same time, a thread for each."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, cast

from synthbench.errors import UnsupportedError
from synthbench.record import Record
from synthbench.run.executors.base import Executor, Work
from synthbench.run.executors.one_place import OnePlace
from synthbench.run.places import Place
from synthbench.run.progress import Observer
from synthbench.run.relocation import Relocation
from synthbench.run.shard import Shard
from synthbench.run.spread import deal_shards
from synthbench.run_info import Machine

Found = tuple[Machine | Record, threading.Event]  # the event: it is stored, go on


class SeveralPlaces(Executor):
    """Each shard belongs to one place for the whole run; shards of other places do not wait for it.

    The threads only wait for the processes that measure. A place goes on when its record is stored.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = list(places)
        self.executors = [OnePlace(place.name) for place in places]
        # A thread of its own, because the system keeps threads to cores, and the processes that
        # they start.
        self.threads = [
            ThreadPoolExecutor(1, place.name, initializer=place.enter) for place in places
        ]
        self.place_of: dict[tuple[str, int], int] = {}  # siblings, part of a shard -> its place
        self.stopping = threading.Event()

    def start(self, work: Work) -> Mapping[str, str]:
        devices = [place.device for place in self.places]
        spread = any(shard.parts > 1 for shard in work.shards)
        if spread or len(set(devices)) == 1:
            numbers = deal_shards(work.shards, len(self.places))
        else:
            numbers = [devices.index(shard.cells[0].device) for shard in work.shards]
        self.place_of = {
            (shard.siblings, shard.part): number
            for shard, number in zip(work.shards, numbers, strict=True)
        }
        started = [
            thread.submit(executor.start, part.work)
            for thread, executor, part in zip(
                self.threads, self.executors, self._parts(work), strict=True
            )
        ]
        for each in started:
            each.result()
        if spread:
            self._require_one_kind()
        return self.missing()

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        found: SimpleQueue[Found | Future[None]] = SimpleQueue()
        left = 0
        for thread, executor, part in zip(
            self.threads, self.executors, self._parts(work), strict=True
        ):
            if part.work.pending():
                thread.submit(self._measure, executor, part, found).add_done_callback(found.put)
                left += 1
        while left:
            next_one = found.get()
            if isinstance(next_one, Future):
                next_one.result()
                left -= 1
            else:
                yield next_one[0]
                next_one[1].set()

    def missing(self) -> Mapping[str, str]:
        return {name: why for one in self.executors for name, why in one.missing().items()}

    def stop(self) -> None:
        self.stopping.set()
        for executor in self.executors:
            executor.interrupt()
        for thread, executor in zip(self.threads, self.executors, strict=True):
            thread.shutdown(cancel_futures=True)
            executor.stop()

    def _require_one_kind(self) -> None:
        """Raise UnsupportedError where rounds would be spread over devices of different types."""
        kinds = {
            place.name: kind
            for place, executor in zip(self.places, self.executors, strict=True)
            if (kind := executor.kind_of(place.device))
        }
        if len(set(kinds.values())) > 1:
            found = "; ".join(f"{name} is {kind}" for name, kind in kinds.items())
            raise UnsupportedError(
                f"rounds can be spread over devices of one type only: {found}; name devices of "
                "one type with --device"
            )

    def _parts(self, work: Work) -> list[Relocation]:
        """The part of the work of each place."""
        observer = cast(Observer, _InTurn(work.observer, self.stopping))
        shards: list[list[Shard]] = [[] for _ in self.places]
        for shard in work.shards:
            shards[self.place_of[shard.siblings, shard.part]].append(shard)
        return [
            Relocation(replace(work, observer=observer), own, place.device)
            for place, own in zip(self.places, shards, strict=True)
        ]

    def _measure(self, executor: OnePlace, part: Relocation, found: SimpleQueue[Any]) -> None:
        for each in executor.measure(part.work):
            if self.stopping.is_set():
                return
            stored = threading.Event()
            planned = part.as_planned(each) if isinstance(each, Record) else each
            found.put((planned, stored))
            while not stored.wait(1.0):
                if self.stopping.is_set():
                    return


class _InTurn:
    """An observer for several threads: one call at a time, and none after the end."""

    def __init__(self, observer: Observer, stopping: threading.Event) -> None:
        self.observer, self.stopping = observer, stopping
        self.lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.observer, name)

        def call(*arguments: Any) -> None:
            with self.lock:
                if not self.stopping.is_set():
                    method(*arguments)

        return call
