"""Which shards of a run wait for a place of a Ray cluster, and what a machine measures of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from synthbench.record import Record, attempt_that_counts
from synthbench.run.cell_runner import SETTLED
from synthbench.run.executors.base import Work
from synthbench.run.progress import Silent
from synthbench.run.shard import Shard
from synthbench.run_info import Machine, merged_machines


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
        """Take note of a record; of two attempts, that which counts."""
        rounds = self.records.setdefault(record.id, {})
        rounds[record.round] = attempt_that_counts(rounds.get(record.round), record)

    def add_machine(self, machine: Machine) -> None:
        """Take note of what is known of a machine: its next shards use the kernels chosen there."""
        self.work = replace(self.work, machines=merged_machines([*self.work.machines, machine]))

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
