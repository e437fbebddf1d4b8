"""Orders: what a job on another machine is to measure, as files in the run's folder `jobs/`."""

from __future__ import annotations

import json
import os
import platform
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from synthbench.errors import ResultsError
from synthbench.measure.source import source_digest
from synthbench.run.executors.base import Work
from synthbench.run.shard import Shard
from synthbench.run_files import read_text, write_text
from synthbench.suites.plan import Plan

JOBS = "jobs"  # a folder: orders, and what a scheduler needs; may be removed when a run is finished
NODES = "nodes"  # a folder there: which machine each job ran on


@dataclass(frozen=True)
class Order:
    """One shard of a plan, and which of its cells are to be measured in which rounds."""

    plan: Plan  # its cells are those of the shard
    plugins: tuple[str, ...]
    places: Mapping[tuple[str, int], int]  # (cell id, round) -> the attempt to make
    part: int = 0  # of the rounds, where these are spread over machines
    code: str = field(default_factory=source_digest)  # of who gives the order
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def shard(self) -> Shard:
        """The shard to measure."""
        return Shard(self.plan.cells, self.part, self.plan.settings.measure.machines)

    def write(self, run_dir: Path) -> None:
        """Store the order, in place of an older one of the same shard."""
        content: dict[str, Any] = {
            "id": self.id,
            "code": self.code,
            "plugins": list(self.plugins),
            "part": self.part,
            "places": [[*place, attempt] for place, attempt in self.places.items()],
            "plan": self.plan.dump(),
        }
        write_text(_path(run_dir, self.shard.name), json.dumps(content))


def read_order(run_dir: Path, shard: str) -> Order:
    """The order for a shard; raises ResultsError where it is missing or damaged."""
    path = _path(run_dir, shard)
    text = read_text(path)
    try:
        raw = json.loads(text)
        return Order(
            plan=Plan.load(raw["plan"]),
            plugins=tuple(raw["plugins"]),
            places={(cell, number): attempt for cell, number, attempt in raw["places"]},
            part=raw["part"],
            code=raw["code"],
            id=raw["id"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(
            f"{path} cannot be read as the order of a job: {error}; give the orders again with "
            "synthbench run --resume"
        ) from error


def ordered_shards(run_dir: Path) -> list[str]:
    """The names of the shards that jobs were to measure."""
    return sorted(path.stem for path in (run_dir / JOBS).glob("*.json"))


def make_orders(work: Work) -> list[Order]:
    """An order per shard that has something pending."""
    pending: dict[str, set[int]] = {}
    for number, cell in work.pending():
        pending.setdefault(cell.id, set()).add(number)
    found = []
    for shard in work.shards:
        places = _places(shard, pending, work.attempts)
        if places:
            plan = replace(work.plan, cells=shard.cells, skipped=(), notes=())
            found.append(Order(plan, tuple(work.plugins), places, shard.part))
    return found


def this_node() -> str:
    """The name of the machine that this process runs on."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def store_node(run_dir: Path, job: str) -> None:
    """Note the machine of a job, by the name of the job's files; nothing but orders uses it."""
    write_text(run_dir / JOBS / NODES / job, this_node())


def node_of(run_dir: Path, job: str) -> str | None:
    """The machine of a job; None if that is not known."""
    path = run_dir / JOBS / NODES / job
    return read_text(path) if path.exists() else None


def _places(
    shard: Shard,
    pending: Mapping[str, Iterable[int]],
    attempts: Mapping[tuple[str, int], int],
) -> dict[tuple[str, int], int]:
    return {
        (cell.id, number): attempts.get((cell.id, number), 0)
        for cell in shard.cells
        for number in sorted(pending.get(cell.id, ()))
        if shard.has_round(number)
    }


def _path(run_dir: Path, shard: str) -> Path:
    return run_dir / JOBS / f"{shard}.json"
