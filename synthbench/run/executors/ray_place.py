"""What runs on a node of a Ray cluster: one place that measures a shard at a time."""

from __future__ import annotations

import importlib
import platform
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, cast

from synthbench.devices import device_kind
from synthbench.measure.environment import machine_id, machine_kind, read_environment
from synthbench.measure.gpu import uuid_of
from synthbench.record import Record
from synthbench.run.executors.base import Work
from synthbench.run.executors.one_place import OnePlace
from synthbench.run.executors.ray_files import NodeFolder
from synthbench.run.progress import Observer

# What a place sends: a Machine or a Record, a CellFile, or what it has to say.
Said = tuple[str, tuple[Any, ...]]  # a method of the observer, and its arguments
LOOK_SECONDS = 1.0  # between two looks at what the cell in progress has saved


@dataclass(frozen=True)
class Started:
    """What the process of the run learns of a place that is ready."""

    node: str  # by name
    environment: dict[str, Any]
    machine: str  # its id
    machine_kind: str
    missing: Mapping[str, str]  # framework -> why it cannot be used


class RayPlace:
    """An actor: Ray gives it a place (`synthbench`) of its node, and a GPU where cells need one."""

    def __init__(self, device: str) -> None:
        self.ray = importlib.import_module("ray")
        node = self.ray.get_runtime_context().get_node_id()
        self.node = f"{platform.node()} (Ray node {node[:8]})"
        # Ray shows an actor its own GPUs only, so all of a node's are called cuda there.
        name = uuid_of(device) if device_kind(device).has_nvml else None
        self.executor = OnePlace(name or "")
        self.folder = NodeFolder()

    def node_name(self) -> str:
        """Where Ray has put this place."""
        return self.node

    def start(self, work: Work) -> Started:
        """Import the frameworks of a plan."""
        missing = self.executor.start(replace(work, run_dir=self.folder.path))
        assert self.executor.runner is not None
        kind = machine_kind(self.executor.runner.environment())
        environment = read_environment(work.plan.settings.measure.threads)
        own = environment | ({"place": self.executor.place} if self.executor.place else {})
        return Started(self.node, environment, machine_id(own), kind, missing)

    def wait_for_quiet(self) -> bool:
        """Wait for a while until nothing else uses this node; whether that is so."""
        return self.executor.wait_for_quiet()

    def measure(self, work: Work, files: Sequence[Any] = ()) -> Iterator[Any]:
        """Machines and records as they come, and what the observer is to be told meanwhile.

        `files`: references to what cells go on from. States that cells save are sent too.
        """
        self.folder.receive(self.ray.get(reference) for reference in files)
        found: SimpleQueue[Any] = SimpleQueue()
        end = object()

        def run() -> None:
            try:
                observer = cast(Observer, _Speaker(found))
                for each in self.executor.measure(replace(work, observer=observer)):
                    found.put(each)
            except Exception as error:
                found.put(error)
            finally:
                found.put(end)

        self._use(found)
        thread = threading.Thread(target=run)
        thread.start()
        while True:
            try:
                each = found.get(timeout=LOOK_SECONDS)
            except Empty:
                yield from self.folder.saved_states()
                continue
            if each is end:
                break
            if isinstance(each, Exception):
                raise each
            yield from self.folder.saved_states()
            if isinstance(each, Record):
                yield from self.folder.kept_parameters(each.cell)
            yield each
        thread.join()

    def _use(self, found: SimpleQueue[Any]) -> None:
        """Let what lives longer than a shard speak through the queue of this one."""
        runner = self.executor.runner
        assert runner is not None
        runner.report_to(cast(Observer, _Speaker(found)))


class _Speaker:
    """An observer that puts what it is told into a queue."""

    def __init__(self, queue: SimpleQueue[Any]) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def say(*arguments: Any) -> None:
            said: Said = (name, arguments)
            self._queue.put(said)

        return say
