"""Work whose cells may run on any device of a kind, on one of these devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synthbench.record import Record
from synthbench.run.executors.base import Work
from synthbench.run.shard import Shard
from synthbench.suites.cell import Cell


class Relocation:
    """The part of a work that one place measures, and its records as the plan names their cells.

    Where the rounds of a cell are spread over devices, the plan's cell is on `cuda` and its rounds
    are measured on `cuda:0`, `cuda:1` and so on; a record's machine says which.
    """

    def __init__(self, work: Work, shards: Sequence[Shard], device: str) -> None:
        self.planned: dict[str, Cell] = {}  # id of the cell on this device -> the plan's cell
        self._moved: dict[str, Cell] = {}  # the other way round
        for shard in shards:
            for cell in shard.cells:
                self._moved[cell.id] = cell.changed(device=device)
                self.planned[self._moved[cell.id].id] = cell
        self.work = replace(
            work,
            plan=replace(work.plan, device=device, cells=tuple(self._moved.values())),
            shards=[replace(s, cells=tuple(self._moved[c.id] for c in s.cells)) for s in shards],
            rounds={
                number: frozenset(self._moved[id].id for id in ids if id in self._moved)
                for number, ids in work.rounds.items()
            },
            done={(self._moved[id].id, n) for id, n in work.done if id in self._moved},
            attempts={
                (self._moved[id].id, number): attempt
                for (id, number), attempt in work.attempts.items()
                if id in self._moved
            },
            settled=[self._on_device(r) for r in work.settled if r.id in self._moved],
            earlier=[self._on_device(r) for r in work.earlier if r.id in self._moved],
            planned=self.planned,
        )

    def as_planned(self, record: Record) -> Record:
        """The record of the plan's cell, from that of the cell on this device."""
        return _with_cell(record, self.planned[record.id])

    def _on_device(self, record: Record) -> Record:
        return _with_cell(record, self._moved[record.id])


def _with_cell(record: Record, cell: Cell) -> Record:
    if record.id == cell.id:
        return record
    return record.model_copy(update={"id": cell.id, "cell": cell})
