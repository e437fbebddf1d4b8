"""The executor `ray`: shards on the nodes of a Ray cluster, whose records come back through Ray."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from synthbench.errors import SynthbenchError
from synthbench.record import Record, latest
from synthbench.run.executors.base import Executor, Work, require_kind
from synthbench.run.executors.ray_connection import AUTO, Demand, connect
from synthbench.run.executors.ray_files import CellFile, files_for, forget_state
from synthbench.run.executors.ray_pool import Place, Pool, cause_of
from synthbench.run.executors.ray_todo import Todo
from synthbench.run.outcome import shortened
from synthbench.run_info import Machine

MOST_LOSSES = 3  # of one shard: what has ended so many places would end all


class RayExecutor(Executor):
    """An actor per place that the nodes offer; each measures a shard at a time.

    Ray gives a place to one actor only, and an actor ends what it has begun when it is killed: its
    shard goes to another one.
    """

    name: ClassVar[str] = "ray"
    description: ClassVar[str] = "a Ray cluster, a shard at a time on each place of its nodes"
    options: ClassVar[tuple[str, ...]] = ("ray_address",)
    chooses_devices: ClassVar[bool] = True

    def __init__(self, ray_address: str = AUTO) -> None:
        self.address = ray_address
        self.ray: Any = None
        self.pool: Pool | None = None
        self.overheads: list[float] = []  # seconds of each shard beside its cells

    def start(self, work: Work) -> Mapping[str, str]:
        require_kind(self.name, work.plan.device)
        self.ray = connect(self.address)
        machines = work.plan.settings.measure.machines
        self.pool = Pool(self.ray, self.address, Demand.of(work.plan), machines)
        self.pool.start(work)
        return self.pool.missing

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        assert self.pool is not None
        shards = [shard for shard in work.shards if replace(work, shards=[shard]).pending()]
        todo = Todo(work, shards, {})
        for record in latest(work.earlier):
            todo.add(record)
        self.pool.begin()
        while todo.shards or any(place.shard for place in self.pool.places):
            self._assign(todo)
            for place in self.pool.ready(work):
                found = self._next(place, todo)
                if found is None:
                    continue
                yield found
                if isinstance(found, Record) and work.run_dir is not None:
                    forget_state(work.run_dir, found)
        self._tell_overhead(work)

    def wait_for_quiet(self) -> bool:
        assert self.pool is not None
        waiting = [place.actor.wait_for_quiet.remote() for place, _ in self.pool.idle()]
        try:
            return all(self.ray.get(waiting))
        except self.ray.exceptions.RayError:  # what is lost is noticed when it is to measure
            return False

    def missing(self) -> Mapping[str, str]:
        return {} if self.pool is None else self.pool.missing

    def stop(self) -> None:
        if self.pool is not None:
            self.pool.stop()
        if self.ray is not None:
            self.ray.shutdown()

    def _assign(self, todo: Todo) -> None:
        """Give the places that have nothing to do the next shards."""
        assert self.pool is not None
        machines = {place.about.machine for place in self.pool.places if place.about is not None}
        for place, about in list(self.pool.idle()):
            while place.shard is None:
                shard = todo.take(about.machine, machines)
                if shard is None:
                    break
                if (part := todo.part(shard, about.machine)) is not None:
                    files = [
                        self.ray.put(file)
                        for number, cell in part.pending()
                        if todo.work.run_dir is not None
                        for file in files_for(todo.work.run_dir, cell, number, about.machine_kind)
                    ]
                    measure = place.actor.measure.options(num_returns="streaming")
                    place.shard, place.stream = shard, measure.remote(part, files)
                    place.begun, place.spent = time.monotonic(), 0.0

    def _next(self, place: Place, todo: Todo) -> Machine | Record | None:
        """What a place has sent; None if that is not a measurement."""
        assert place.about is not None
        try:
            found = self.ray.get(next(place.stream))
        except StopIteration:
            self.overheads.append(time.monotonic() - place.begun - place.spent)
            place.shard = place.stream = None
            return None
        except self.ray.exceptions.RayTaskError as error:
            raise cause_of(error) from error
        except self.ray.exceptions.RayError as error:
            self._lose(place, todo, error)
            return None
        if isinstance(found, CellFile):
            if found.problem:
                todo.work.observer.note(found.problem)
            elif todo.work.run_dir is not None:
                found.write(todo.work.run_dir)
            return None
        if isinstance(found, tuple):
            method, arguments = found
            getattr(todo.work.observer, method)(*arguments)
            return None
        assert isinstance(found, Machine | Record)
        if isinstance(found, Record):
            todo.add(found)
            place.spent += found.wall_seconds
        else:
            todo.add_machine(found)
        return found

    def _lose(self, place: Place, todo: Todo, error: Exception) -> None:
        """Go on without a place; raises SynthbenchError where its shard has ended too many."""
        assert self.pool is not None
        assert place.shard is not None
        assert place.about is not None
        shard, node = place.shard, place.about.node
        losses = todo.losses[id(shard)] = todo.losses.get(id(shard), 0) + 1
        self.pool.remove(place)
        todo.shards.insert(0, shard)
        if losses == MOST_LOSSES:
            raise SynthbenchError(
                f"{losses} places were lost while they measured one shard, the last on {node}: "
                f"{shortened(str(error))}; what was measured is kept, go on with --resume"
            ) from error
        todo.work.observer.note(f"lost a place of {node}; its shard goes to another one")

    def _tell_overhead(self, work: Work) -> None:
        if self.overheads:
            work.observer.note(
                f"ray: {len(self.overheads)} shards, {statistics.median(self.overheads):.1f} s per "
                "shard beside its cells (median)"
            )
        self.overheads = []
