"""What an executor is: shards go in, records come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from synthbench.record import Machine, Record
from synthbench.run.progress import Observer
from synthbench.run.shard import Shard
from synthbench.suites.plan import Plan


@dataclass
class Work:
    """What an executor is asked to do."""

    plan: Plan
    shards: Sequence[Shard]
    plugins: Sequence[str]
    observer: Observer
    done: set[tuple[str, int]] = field(default_factory=set)  # (cell id, round) already recorded
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)  # the next one of each
    settled: Sequence[Record] = ()  # whose outcomes another round would only repeat
    machines: Sequence[Machine] = ()  # that measured this run before
    earlier: Sequence[Record] = ()  # of this run, all of them


class Executor:
    """Runs the cells of shards somewhere; subclass it to add an executor.

    All cells of one shard must be measured on the same machine, in each of the plan's rounds, and
    no two cells at the same time on one device.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""

    def start(self, work: Work) -> Mapping[str, str]:
        """Make ready, before anything is written: framework -> why none of its cells can run.

        Raises SynthbenchError if this executor cannot be used at all.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no start()")

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        """Measure every cell of every round that is not done, and yield each record at once.

        Each machine is yielded before its first record, and again whenever more is known about it.
        Everything yielded is stored before the next one is requested.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no measure()")

    def missing(self) -> Mapping[str, str]:
        """Framework -> why its cells did not run, as far as known."""
        return {}

    def stop(self) -> None:
        """End everything that was started; also called after an error or Ctrl-C."""
