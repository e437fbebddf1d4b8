"""What an executor is: shards go in, records come out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from synthbench.errors import NotationError
from synthbench.measure.quiet import wait_for_quiet
from synthbench.record import Record
from synthbench.run.progress import Observer
from synthbench.run.shard import Shard, round_order
from synthbench.run_info import Machine
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan


@dataclass
class Work:
    """What an executor is asked to do."""

    plan: Plan
    shards: Sequence[Shard]
    plugins: Sequence[str]
    observer: Observer
    rounds: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Rounds to measure -> the ids of their cells; empty: each round of the whole plan."""
    done: set[tuple[str, int]] = field(default_factory=set)  # (cell id, round) already recorded
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)  # the next one of each
    settled: Sequence[Record] = ()  # whose outcomes another round would only repeat
    machines: Sequence[Machine] = ()  # that measured this run before
    earlier: Sequence[Record] = ()  # of this run, all of them
    run_dir: Path | None = None  # the run's folder; None: nothing of a cell is kept but its record
    planned: Mapping[str, Cell] = field(default_factory=dict)
    """Id of a cell -> the plan's cell, where the plan leaves its device open."""

    def pending(self) -> list[tuple[int, Cell]]:
        """Round and cell of everything that is not done, in the order to measure it in."""
        measure = self.plan.settings.measure
        every = frozenset(cell.id for shard in self.shards for cell in shard.cells)
        rounds = self.rounds or dict.fromkeys(range(measure.least_rounds), every)
        return [
            (number, cell)
            for number, ids in rounds.items()
            for cell in round_order(self._cells_of(number), measure.seed, number)
            if cell.id in ids and (cell.id, number) not in self.done
        ]

    def _cells_of(self, number: int) -> list[Cell]:
        return [cell for shard in self.shards if shard.has_round(number) for cell in shard.cells]


def cells_by_round(places: Collection[tuple[str, int]]) -> dict[int, frozenset[str]]:
    """The rounds of pairs of a cell's id and a round, in order -> the ids of their cells."""
    return {
        number: frozenset(cell for cell, own in places if own == number)
        for number in sorted({number for _, number in places})
    }


def require_kind(executor: str, device: str) -> None:
    """Raise NotationError unless a device, as it was given, is only a kind of devices.

    For executors that give each job devices of its own.
    """
    kind, _, number = device.partition(":")
    if number or "," in device:
        raise NotationError(
            f"--device {device}: the executor {executor} gives each job devices of its own; name "
            f"only their kind: --device {kind}"
        )


class Executor:
    """Runs the cells of shards somewhere; subclass it to add an executor.

    All cells of one shard must be measured on the same machine, in each of the shard's rounds, and
    no two cells at the same time on one device. Shards with the same cells (`Shard.siblings`) have
    other rounds each, and belong on different machines of one kind.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    options: ClassVar[tuple[str, ...]] = ()
    """What `synthbench run` may pass to the constructor by name, as the option --ray-address."""

    stores_records: ClassVar[bool] = False
    """Whether its jobs write records and machines into the run's folder themselves (`shards/`), and
    measure disturbed cells again, so that what it yields is only reported."""

    chooses_devices: ClassVar[bool] = False
    """Whether it gives each job its devices, so that a run may name only their kind, as cuda."""

    detached: bool = False  # whether measure() has returned while its jobs go on

    def start(self, work: Work) -> Mapping[str, str]:
        """Make ready, before anything is written: framework -> why none of its cells can run.

        Raises SynthbenchError if this executor cannot be used at all.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no start()")

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        """Measure every pending cell of the work, and yield each record at once.

        It is called again with other `rounds` where verdicts need more of them.
        Each machine is yielded before its first record, and again whenever more is known about it.
        Everything yielded is stored before the next one is requested.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no measure()")

    def wait_for_quiet(self) -> bool:
        """Wait for a while until nothing else uses the machines that measure; whether that is so.

        It is called before disturbed cells are measured again, while nothing is measured.
        """
        return wait_for_quiet()

    def missing(self) -> Mapping[str, str]:
        """Framework -> why its cells did not run, as far as known."""
        return {}

    def stop(self) -> None:
        """End everything that was started; also called after an error or Ctrl-C."""
