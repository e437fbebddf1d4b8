"""Connect to a Ray cluster, and what its nodes offer to cells."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthbench.devices import device_kind
from synthbench.errors import NotationError, PackageMissingError, UnsupportedError
from synthbench.run.outcome import shortened
from synthbench.suites.plan import Plan

RESOURCE = "synthbench"  # of a node: on how many devices it may measure at the same time
GPU = "GPU"  # the resource by which Ray counts GPUs
NODE_ADVICE = f"ray start --resources='{{\"{RESOURCE}\": 1}}'"
AUTO = "auto"
CLIENT = "ray://"
CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Demand:
    """What each place of a run asks its node for."""

    devices: int = 1  # in units of the resource `synthbench`
    gpus: int = 0

    @classmethod
    def of(cls, plan: Plan) -> Demand:
        """A GPU for each device of the plan's largest cell; on a processor, all of a node."""
        if not device_kind(plan.devices[0]).has_nvml:
            return cls()
        most = max((cell.devices for cell in plan.cells), default=1)
        return cls(most, most)

    def options(self) -> dict[str, Any]:
        """The same as options of a Ray actor."""
        found: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0}
        found["resources"] = {RESOURCE: self.devices}
        return found | ({"num_gpus": self.gpus} if self.gpus else {})

    def places_in(self, resources: Mapping[str, float]) -> int:
        """How many places a node with these resources has."""
        found = int(resources.get(RESOURCE, 0)) // self.devices
        if self.gpus:
            found = min(found, int(resources.get(GPU, 0)) // self.gpus)
        return found

    def require_offered(self, nodes: Iterable[Mapping[str, float]], address: str) -> None:
        """Raise UnsupportedError unless a node with some of these resources has a place."""
        nodes = [node for node in nodes if node.get(RESOURCE, 0)]
        if any(self.places_in(node) for node in nodes):
            return
        if not nodes:
            raise UnsupportedError(
                f"no node of the Ray cluster at {address} offers a place to measure; start each "
                f"node with {NODE_ADVICE}, on a GPU node with the number of its GPUs"
            )
        gpus = max(int(node.get(GPU, 0)) for node in nodes)
        units = max(int(node[RESOURCE]) for node in nodes)
        largest = f" (devices: {self.devices})" * (self.devices > 1)
        raise UnsupportedError(
            f"no node of the Ray cluster at {address} has enough GPUs for a cell: the largest cell "
            f"needs {self.gpus}{largest}, and nodes offer at most {gpus}, with the resource "
            f"{RESOURCE} {units}; start a node with that many GPUs, and {RESOURCE} as many"
        )


def connect(address: str) -> Any:
    """The module ray, connected to the cluster at an address.

    Raises NotationError for an address of Ray's client, PackageMissingError without the package,
    and UnsupportedError where no cluster answers.
    """
    if address.startswith(CLIENT):
        raise NotationError(
            f"--ray-address {address}: start the run on a machine of the cluster, and leave the "
            f"address out; {CLIENT} addresses cannot stream records"
        )
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise PackageMissingError(
            "the executor ray needs the package ray, which is not installed; "
            "pip install 'synthbench[ray]'"
        ) from error
    try:
        _require_listening(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # whatever Ray's client raises
        raise UnsupportedError(
            f"no Ray cluster can be used at {address}: {shortened(str(error))}; start one "
            f"with {NODE_ADVICE} --head, or give its address with --ray-address"
        ) from error
    return ray


def resources_of_nodes(ray: Any) -> dict[str, Mapping[str, float]]:
    """The id of each node that is alive -> what it has, used or not."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _require_listening(address: str) -> None:
    """Raise OSError where nobody answers at an address: Ray itself tries for some minutes."""
    if address == AUTO:  # as Ray finds it; where it finds none, it says so at once
        current = Path(os.environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
        known = current.read_text().strip() if current.is_file() else ""
        address = os.environ.get("RAY_ADDRESS") or known
    host, _, port = address.rpartition(":")
    if "/" not in host and port.isdigit():
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
