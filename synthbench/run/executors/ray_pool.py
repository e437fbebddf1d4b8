"""The places of a Ray cluster that a run has: asked for, started, lost and given back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from synthbench.errors import SynthbenchError, UnsupportedError
from synthbench.measure.environment import git_state
from synthbench.measure.source import source_digest
from synthbench.run.executors.base import Work
from synthbench.run.executors.ray_connection import Demand, resources_of_nodes
from synthbench.run.executors.ray_place import RayPlace, Started
from synthbench.run.outcome import shortened
from synthbench.run.progress import Silent
from synthbench.run.same_code import code_differences, hardware_differences
from synthbench.run.shard import Shard

START_SECONDS = 600.0  # to start the hosts of a place, with its frameworks
LOOK_SECONDS = 1.0  # between two looks at what nodes there are
GONE_SECONDS = 120.0  # without any place, before a run gives up


@dataclass
class Place:
    """A place of a node, and the shard that it measures."""

    actor: Any
    placed: Any  # ready once Ray has given it a node
    starting: Any  # the answer of start(), while that is awaited
    about: Started | None = None  # None until it has started
    shard: Shard | None = None
    stream: Any = None  # of what the shard's measurement gives
    begun: float = 0.0
    spent: float = 0.0  # seconds of the shard's cells

    @property
    def awaited(self) -> Any:
        """What Ray has to wait for; None while the place has nothing to do."""
        return self.starting if self.starting is not None else self.stream


class Pool:
    """An actor per place that the nodes offer; Ray gives a place to one actor only.

    `machines`: that the rounds of a cell are spread over.
    """

    def __init__(self, ray: Any, address: str, demand: Demand, machines: int = 1) -> None:
        self.ray, self.address, self.demand = ray, address, demand
        self.places: list[Place] = []
        self.reference: tuple[str, dict[str, Any]] | None = None  # a node, and its environment
        self.missing: dict[str, str] = {}  # framework -> why nodes cannot use it
        self.refused: list[str] = []  # why, for each place since the cluster has had these nodes
        self.machines = machines
        self._seen = time.monotonic()  # when there was a place last
        self._nodes: set[str] = set()  # of the cluster, by id

    def start(self, work: Work) -> None:
        """Ask for places, and wait until those that can be had have started.

        Raises SynthbenchError where there is none, or where nodes differ.
        """
        self.demand.require_offered(resources_of_nodes(self.ray).values(), self.address)
        self.fill(work)
        begun = self._seen = time.monotonic()
        while starting := [place for place in self.places if place.starting is not None]:
            ready, _ = self.ray.wait([place.starting for place in starting], timeout=LOOK_SECONDS)
            for place in [each for each in starting if each.starting in ready]:
                self._welcome(place)
            if self._has_started() and time.monotonic() > begun + START_SECONDS:
                break  # another user of the cluster has the rest
            if not ready:
                self._require_places(START_SECONDS)

    def fill(self, work: Work) -> None:
        """Ask for a place of each that the nodes offer, but not for more than there are shards.

        Those that were refused are not asked for again until the cluster has other nodes.
        """
        device = work.plan.device
        complete = replace(work, shards=[], observer=Silent(), run_dir=None)
        nodes = resources_of_nodes(self.ray)
        if nodes.keys() != self._nodes:
            self._nodes, self.refused = set(nodes), []
        offered = sum(map(self.demand.places_in, nodes.values())) - len(self.refused)
        actor_class = self.ray.remote(**self.demand.options())(RayPlace)
        for _ in range(min(offered, len(work.shards)) - len(self.places)):
            actor = actor_class.remote(device)
            placed = actor.node_name.remote()
            self.places.append(Place(actor, placed, actor.start.remote(complete)))

    def idle(self) -> Iterator[tuple[Place, Started]]:
        """The places that have started and measure nothing."""
        for place in self.places:
            if place.about is not None and place.shard is None:
                yield place, place.about

    def begin(self) -> None:
        """Count from now how long a run waits without a place."""
        self._seen = time.monotonic()

    def ready(self, work: Work) -> list[Place]:
        """The places that have sent something; a place that comes late is taken in.

        Raises SynthbenchError where none has been there for GONE_SECONDS.
        """
        if self._has_started():
            self.begin()
        self._require_places(GONE_SECONDS)
        awaited = [place.awaited for place in self.places if place.awaited is not None]
        found = self.ray.wait(awaited, timeout=LOOK_SECONDS)[0] if awaited else []
        ready = [place for place in self.places if place.awaited in found]
        for place in [each for each in ready if each.starting is not None]:
            try:
                self._welcome(place)
            except SynthbenchError as error:
                if str(error) not in self.refused:
                    work.observer.note(f"a place is not used: {error}")
                self.refused.append(str(error))
                self.remove(place)
        if not found:
            self.fill(work)
        return [place for place in ready if place.stream is not None]

    def remove(self, place: Place) -> None:
        """Do without a place."""
        self.places.remove(place)
        self.ray.kill(place.actor)

    def stop(self) -> None:
        """Give every place back."""
        for place in list(self.places):
            self.remove(place)

    def _welcome(self, place: Place) -> None:
        """Use a place that has started; raises UnsupportedError where its node differs."""
        try:
            about: Started = self.ray.get(place.starting)
        except self.ray.exceptions.RayTaskError as error:
            raise cause_of(error) from error
        except self.ray.exceptions.RayError as error:
            raise UnsupportedError(
                f"a node of the Ray cluster cannot measure: {shortened(str(error))}; is synthbench "
                "installed on all of them?"
            ) from error
        environment = about.environment
        # Of the machine of the run only the code counts: it need not have the frameworks.
        here = environment | {"code_sha256": source_digest(), "git": git_state()}
        before = self.reference or (about.node, environment)
        for other, facts in (("the machine of the run", here), before):
            found = code_differences(facts, environment)
            if facts is not here:
                found += hardware_differences(facts, environment, self.machines)
            if found:
                raise UnsupportedError(
                    f"{other} and {about.node} differ: {'; '.join(found)}; a run needs the same "
                    "versions everywhere: make both equal, or take one out of the cluster"
                )
        self.reference = before
        self.missing |= about.missing
        place.starting, place.about = None, about

    def _has_started(self) -> bool:
        return any(place.about is not None for place in self.places)

    def _require_places(self, patience: float) -> None:
        """Raise SynthbenchError where for so many seconds no place has been there or is starting.

        A place that has a node already may take START_SECONDS to import its frameworks.
        """
        if self._has_started():
            return
        placed = [place.placed for place in self.places]
        if placed and self.ray.wait(placed, timeout=0)[0]:
            patience = START_SECONDS
        if time.monotonic() > self._seen + patience:
            raise SynthbenchError(
                f"no node of the Ray cluster at {self.address} gives a place to measure: another "
                "run has them, or their nodes have gone; go on with --resume when there are some"
            )


def cause_of(error: Any) -> BaseException:
    """What an actor's method raised, as the project's own error where it is one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, SynthbenchError):
        return cause
    return SynthbenchError(f"a place of the Ray cluster failed: {shortened(str(cause or error))}")
