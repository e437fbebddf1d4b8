"""The executor `ray`: shards on the nodes of a Ray cluster, whose records come back through Ray."""

from __future__ import annotations

import importlib
import os
import socket
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from synthbench.devices import device_kind
from synthbench.errors import NotationError, PackageMissingError, SynthbenchError, UnsupportedError
from synthbench.measure.environment import git_state
from synthbench.measure.source import source_digest
from synthbench.record import Machine, Record, latest
from synthbench.run.cell_runner import SETTLED
from synthbench.run.executors.base import Executor, Work, require_kind
from synthbench.run.executors.ray_place import RayPlace
from synthbench.run.outcome import shortened
from synthbench.run.progress import Silent
from synthbench.run.same_code import code_differences, hardware_differences
from synthbench.run.shard import Shard

RESOURCE = "synthbench"  # of a node: how many cells it may measure at the same time
NODE_ADVICE = f"ray start --resources='{{\"{RESOURCE}\": 1}}'"
AUTO = "auto"
CLIENT = "ray://"
CONNECT_SECONDS = 10.0
START_SECONDS = 600.0  # to start the hosts of a place, with its frameworks
LOOK_SECONDS = 1.0  # between two looks at what nodes there are
GONE_SECONDS = 120.0  # without any place, before a run gives up
MOST_LOSSES = 3  # of one shard: what has ended so many places would end all


@dataclass
class _Place:
    """A place of a node, and the shard that it measures."""

    actor: Any
    starting: Any  # the answer of start(), while that is awaited
    node: str = ""
    machine: str = ""  # its id
    shard: Shard | None = None
    stream: Any = None  # of what the shard's measurement gives
    begun: float = 0.0
    spent: float = 0.0  # seconds of the shard's cells

    @property
    def awaited(self) -> Any:
        """What Ray has to wait for; None while the place has nothing to do."""
        return self.starting if self.starting is not None else self.stream


@dataclass
class Todo:
    """The shards that no place measures now, and the records of all of them."""

    work: Work
    shards: list[Shard]
    records: dict[str, dict[int, Record]]  # cell id -> round
    losses: dict[int, int] = field(default_factory=dict)  # id() of a shard -> places that it lost
    taken: dict[tuple[str, int], str] = field(default_factory=dict)
    """Siblings and part of a shard -> the machine that has taken it last."""

    def add(self, record: Record) -> None:
        """Take note of a record, in place of an older one."""
        self.records.setdefault(record.id, {})[record.round] = record

    def take(self, machine: str, machines: set[str]) -> Shard | None:
        """A shard for a machine: one that it has begun, or one that no other of these has.

        Where there are enough machines, none begins two shards with the same cells.
        """
        for shard in self.shards:
            begun = {record.machine for record in self._known(shard)} & machines
            others = self._other_parts(shard) if len(machines) >= shard.parts else set()
            if machine in begun or not (begun or machine in others):
                self.shards.remove(shard)
                self.taken[shard.siblings, shard.part] = machine
                return shard
        return None

    def part(self, shard: Shard, machine: str) -> Work | None:
        """What a machine has to measure of a shard; None if that is nothing.

        What other machines have measured of it is measured again: ratios are taken within one.
        """
        known = self._known(shard)
        away = [record for record in known if record.machine not in ("", machine)]
        pending = replace(self.work, shards=[shard]).pending()
        places = {(cell.id, number) for number, cell in pending}
        places |= {(record.id, record.round) for record in away}
        if not places:
            return None
        numbers = sorted({number for _, number in places})
        kept = [record for record in known if (record.id, record.round) not in places]
        return replace(
            self.work,
            plan=replace(self.work.plan, cells=shard.cells, skipped=(), notes=()),
            shards=[shard],
            observer=Silent(),
            rounds={n: frozenset(cell for cell, number in places if number == n) for n in numbers},
            done=set(),
            attempts={place: self.work.attempts.get(place, 0) for place in places},
            settled=[record for record in kept if record.outcome in SETTLED],
            machines=[each for each in self.work.machines if each.id == machine],
            earlier=kept,
            run_dir=None,  # the nodes need not see it
        )

    def _known(self, shard: Shard) -> list[Record]:
        return [record for record in self._of_cells(shard) if shard.has_round(record.round)]

    def _of_cells(self, shard: Shard) -> list[Record]:
        return [r for cell in shard.cells for r in self.records.get(cell.id, {}).values()]

    def _other_parts(self, shard: Shard) -> set[str]:
        """The machines that have the other rounds of a shard's cells."""
        if shard.parts == 1:
            return set()
        parts = set(range(shard.parts)) - {shard.part}
        found = {r.machine for r in self._of_cells(shard) if not shard.has_round(r.round)}
        return found | {self.taken.get((shard.siblings, part), "") for part in parts}


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
        self.places: list[_Place] = []
        self.reference: tuple[str, dict[str, Any]] | None = None  # a node, and its environment
        self.lacking: dict[str, str] = {}
        self.machines = 1  # that the rounds of a cell are spread over
        self.overheads: list[float] = []  # seconds of each shard beside its cells

    def start(self, work: Work) -> Mapping[str, str]:
        require_kind(self.name, work.plan.device)
        if self.address.startswith(CLIENT):
            raise NotationError(
                f"--ray-address {self.address}: start the run on a machine of the cluster, and "
                f"leave the address out; {CLIENT} addresses cannot stream records"
            )
        self.machines = work.plan.settings.measure.machines
        self._connect()
        if not self._offered():
            raise UnsupportedError(
                f"no node of the Ray cluster at {self.address} offers a place to measure; start "
                f"each node with {NODE_ADVICE}, on a GPU node with the number of its GPUs"
            )
        self._fill(work)
        limit = time.monotonic() + START_SECONDS
        while any(place.starting is not None for place in self.places):
            awaited = [place.starting for place in self.places if place.starting is not None]
            ready, _ = self.ray.wait(awaited, timeout=LOOK_SECONDS)
            for place in [each for each in self.places if each.starting in ready]:
                self._welcome(place)
            started = [place for place in self.places if place.starting is None]
            if started and time.monotonic() > limit:
                break  # another user of the cluster has the rest
            if not ready:
                self._require_places(limit)
        return self.lacking

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        shards = [shard for shard in work.shards if replace(work, shards=[shard]).pending()]
        todo = Todo(work, shards, {})
        for record in latest(work.earlier):
            todo.add(record)
        limit = time.monotonic() + GONE_SECONDS
        while todo.shards or any(place.shard for place in self.places):
            self._assign(todo)
            if any(place.starting is None for place in self.places):
                limit = time.monotonic() + GONE_SECONDS
            self._require_places(limit)
            awaited = [place.awaited for place in self.places if place.awaited is not None]
            ready = self.ray.wait(awaited, timeout=LOOK_SECONDS)[0] if awaited else []
            for place in [each for each in self.places if each.awaited in ready]:
                if place.starting is not None:
                    self._welcome_late(place, work)
                    continue
                found = self._next(place, todo)
                if isinstance(found, Record):
                    todo.add(found)
                    place.spent += found.wall_seconds
                if isinstance(found, Machine | Record):
                    yield found
            if not ready:
                self._fill(work)
        self._tell_overhead(work)

    def missing(self) -> Mapping[str, str]:
        return self.lacking

    def stop(self) -> None:
        if self.ray is None:
            return
        for place in self.places:
            self.ray.kill(place.actor)
        self.places = []
        self.ray.shutdown()

    def _connect(self) -> None:
        try:
            ray = importlib.import_module("ray")
        except ImportError as error:
            raise PackageMissingError(
                "the executor ray needs the package ray, which is not installed; "
                "pip install 'synthbench[ray]'"
            ) from error
        try:
            _require_listening(self.address)
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # whatever Ray's client raises
            raise UnsupportedError(
                f"no Ray cluster can be used at {self.address}: {shortened(str(error))}; start one "
                f"with {NODE_ADVICE} --head, or give its address with --ray-address"
            ) from error
        self.ray = ray

    def _offered(self) -> int:
        """How many places the nodes have now."""
        return int(self.ray.cluster_resources().get(RESOURCE, 0))

    def _fill(self, work: Work) -> None:
        """Ask for a place of each that the nodes offer, but not for more than there are shards."""
        device, complete = work.plan.device, replace(work, shards=[], observer=Silent())
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0, "resources": {RESOURCE: 1}}
        if device_kind(device).has_nvml:
            options["num_gpus"] = 1
        actor_class = self.ray.remote(**options)(RayPlace)
        for _ in range(min(self._offered(), len(work.shards)) - len(self.places)):
            actor = actor_class.remote(device)
            self.places.append(_Place(actor, actor.start.remote(complete)))

    def _welcome(self, place: _Place) -> None:
        """Use a place that has started; raises UnsupportedError where its node differs."""
        try:
            node, environment, machine, missing = self.ray.get(place.starting)
        except self.ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except self.ray.exceptions.RayError as error:
            raise UnsupportedError(
                f"a node of the Ray cluster cannot measure: {shortened(str(error))}; is synthbench "
                "installed on all of them?"
            ) from error
        # Of the machine of the run only the code counts: it need not have the frameworks.
        here = environment | {"code_sha256": source_digest(), "git": git_state()}
        before = self.reference or (node, environment)
        for other, facts in (("the machine of the run", here), before):
            found = code_differences(facts, environment)
            if facts is not here:
                found += hardware_differences(facts, environment, self.machines)
            if found:
                raise UnsupportedError(
                    f"{other} and {node} differ: {'; '.join(found)}; a run needs the same versions "
                    "everywhere: make both equal, or take one out of the cluster"
                )
        self.reference = before
        self.lacking |= missing
        place.starting, place.node, place.machine = None, node, machine

    def _welcome_late(self, place: _Place, work: Work) -> None:
        """Use a place that came while others measure, or do without it."""
        try:
            self._welcome(place)
        except SynthbenchError as error:
            work.observer.note(f"a place is not used: {error}")
            self._remove(place)

    def _assign(self, todo: Todo) -> None:
        """Give the places that have nothing to do the next shards."""
        machines = {place.machine for place in self.places if place.machine}
        for place in self.places:
            while place.machine and place.shard is None:
                shard = todo.take(place.machine, machines)
                if shard is None:
                    break
                if (part := todo.part(shard, place.machine)) is not None:
                    measure = place.actor.measure.options(num_returns="streaming")
                    place.shard, place.stream = shard, measure.remote(part)
                    place.begun, place.spent = time.monotonic(), 0.0

    def _next(self, place: _Place, todo: Todo) -> Machine | Record | None:
        """What a place has sent; None if that is not a measurement."""
        shard = place.shard
        assert shard is not None
        try:
            found = self.ray.get(next(place.stream))
        except StopIteration:
            self.overheads.append(time.monotonic() - place.begun - place.spent)
            place.shard = place.stream = None
            return None
        except self.ray.exceptions.RayTaskError as error:
            raise _cause(error) from error
        except self.ray.exceptions.RayError as error:
            losses = todo.losses[id(shard)] = todo.losses.get(id(shard), 0) + 1
            self._remove(place)
            todo.shards.insert(0, shard)
            if losses == MOST_LOSSES:
                raise SynthbenchError(
                    f"{losses} places were lost while they measured one shard, the last on "
                    f"{place.node}: {shortened(str(error))}; what was measured is kept, go on with "
                    "--resume"
                ) from error
            todo.work.observer.note(f"lost a place of {place.node}; its shard goes to another one")
            return None
        if isinstance(found, tuple):
            method, arguments = found
            getattr(todo.work.observer, method)(*arguments)
            return None
        assert isinstance(found, Machine | Record)
        return found

    def _remove(self, place: _Place) -> None:
        self.places.remove(place)
        self.ray.kill(place.actor)

    def _require_places(self, limit: float) -> None:
        """Raise SynthbenchError where no place has started until a moment, and none is coming."""
        if time.monotonic() > limit and not any(place.starting is None for place in self.places):
            raise SynthbenchError(
                f"no node of the Ray cluster at {self.address} gives a place to measure: another "
                "run has them, or their nodes have gone; go on with --resume when there are some"
            )

    def _tell_overhead(self, work: Work) -> None:
        if self.overheads:
            work.observer.note(
                f"ray: {len(self.overheads)} shards, {statistics.median(self.overheads):.1f} s per "
                "shard beside its cells (median)"
            )
        self.overheads = []


def _require_listening(address: str) -> None:
    """Raise OSError where nobody answers at an address: Ray itself tries for some minutes."""
    if address == AUTO:  # as Ray finds it; where it finds none, it says so at once
        current = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
        known = current.read_text().strip() if current.is_file() else ""
        address = os.environ.get("RAY_ADDRESS") or known
    host, _, port = address.rpartition(":")
    if "/" not in host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()


def _cause(error: Any) -> BaseException:
    """What an actor's method raised, as the project's own error where it is one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, SynthbenchError):
        return cause
    return SynthbenchError(f"a place of the Ray cluster failed: {shortened(str(cause or error))}")
