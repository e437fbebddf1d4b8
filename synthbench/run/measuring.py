"""Measure what is pending of a work with an executor, and keep each record before the next."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from synthbench.measure.disturbed import Place, disturbed
from synthbench.record import Record, attempt_that_counts
from synthbench.run.cell_runner import SETTLED
from synthbench.run.executors.base import Executor, Work, cells_by_round
from synthbench.run.progress import Observer
from synthbench.run.resume import add_machine
from synthbench.run.time_left import TimeLeft
from synthbench.run_info import Machine
from synthbench.store import append_record, read_info


@dataclass
class Summary:
    """What a call of `run_plan` did."""

    run_dir: Path
    device: str
    recorded: int = 0  # records added
    outcomes: Counter[str] = field(default_factory=Counter)  # of the records that count
    missing: dict[str, str] = field(default_factory=dict)  # framework -> why none of its cells ran
    interrupted: bool = False
    detached: bool = False  # the executor's jobs go on without this process


class Sink(Protocol):
    """Where records and machines are stored."""

    def store(self, record: Record) -> None:
        """Store a record; it is on disk when this returns."""

    def add_machine(self, machine: Machine) -> None:
        """Store a machine, or what more is known of it."""

    def machines(self) -> list[Machine]:
        """The machines that measured the run so far."""


class RunFolder:
    """The sink that one process has for itself: records.jsonl and run.json of a run's folder."""

    def __init__(self, run_dir: Path, observer: Observer) -> None:
        self.run_dir, self.observer = run_dir, observer

    def store(self, record: Record) -> None:
        append_record(self.run_dir, record)

    def add_machine(self, machine: Machine) -> None:
        add_machine(self.run_dir, machine, self.observer)

    def machines(self) -> list[Machine]:
        return read_info(self.run_dir).machines


def measure_pending(executor: Executor, work: Work, progress: Progress) -> None:
    """Store what the executor measures of the work as it is now."""
    work.earlier = progress.records
    work.settled = [
        record
        for record in work.earlier
        if record.outcome in SETTLED and (record.id, record.round) in work.done
    ]
    progress.begin_timing()
    for found in executor.measure(work):
        if isinstance(found, Machine):
            if not executor.stores_records:
                progress.sink.add_machine(found)
            progress.begin_timing()
        else:
            progress.store(found, measured=True, stored=executor.stores_records)
    work.machines = progress.sink.machines()


def measure_disturbed_again(
    executor: Executor,
    work: Work,
    progress: Progress,
    only: Callable[[], Collection[str]] | None = None,
) -> None:
    """Measure disturbed cells again when the machine is quiet, each as often as suites allow.

    What earlier calls and jobs have measured again counts as well.
    Not those that in another round failed as they would again: their job would not be run.
    `only`: the ids of the cells to be repeated, asked for before each time; None: all.
    """
    retries = work.plan.settings.measure.retries
    while not executor.detached:
        settled = {record.id for record in progress.records if record.outcome in SETTLED}
        places = {
            place
            for place in disturbed(progress.records)
            if progress.repeated[place] < retries and place[0] not in settled
        }
        if places and only is not None:
            ids = only()
            places = {place for place in places if place[0] in ids}
        if not places:  # without places of its own, all of the work would be asked for
            return
        work.done -= places
        work.rounds = cells_by_round(places)
        pending = progress.expect(work)  # without what the plan has no longer
        if not pending:
            return
        quiet = "" if executor.wait_for_quiet() else "; the machine is still busy"
        work.observer.note(f"measuring {pending} disturbed cells again{quiet}")
        measured = progress.done
        measure_pending(executor, work, progress)
        if progress.done == measured:  # a framework is gone
            return


class Progress:
    """Stores records, and reports each to the observer with the time left.

    `records`: of the run so far, all attempts.
    """

    def __init__(
        self, work: Work, summary: Summary, sink: Sink, records: Sequence[Record], skips: int = 0
    ) -> None:
        self.work, self.summary, self.observer = work, summary, work.observer
        self.sink = sink
        self._records: dict[Place, Record] = {}  # that count
        self.repeated = Counter[Place]()  # attempts after numbers that count, on their machine
        for record in sorted(records, key=lambda record: record.attempt):
            self._add(record)
        self.done = sum(place in work.done for place in self._records)
        self.total = self.done + skips
        self.pending = Counter[str]()  # ids of cells -> records to be measured
        self.time_left = TimeLeft()
        self.started = self.begun = time.monotonic()
        self.expect(work)
        self.observer.started(self.work.plan, self.done, self.total)

    @property
    def records(self) -> list[Record]:
        """The records of the whole run that count."""
        return list(self._records.values())

    @property
    def minutes(self) -> float:
        """Since this call began to measure."""
        return (time.monotonic() - self.started) / 60

    def expect(self, work: Work) -> int:
        """Count what is pending now as to be measured, except for missing frameworks."""
        missing = self.summary.missing
        self.pending = Counter(
            cell.id for _, cell in work.pending() if cell.framework not in missing
        )
        self.total += self.pending.total()
        return self.pending.total()

    def begin_timing(self) -> None:
        """Count the seconds of the next record from now on."""
        self.begun = time.monotonic()

    def store(self, record: Record, measured: bool = False, stored: bool = False) -> None:
        """Store a record unless that is done, then report it."""
        if measured:
            seconds = time.monotonic() - self.begun
            self.time_left.add(record.id, seconds, record.wall_seconds)
        place = (record.id, record.round)
        if place in self.work.done:  # measured again on another machine
            self.total += 1
        if not stored:
            self.sink.store(record)
        self._add(record)
        self.work.done.add(place)
        self.work.attempts[place] = record.attempt + 1
        self.summary.recorded += 1
        self.done += 1
        self.pending -= Counter([record.id])
        left = self.time_left.of(self.pending.elements())
        self.observer.cell_finished(record, self.done, self.total, left)
        self.begin_timing()

    def _add(self, record: Record) -> None:
        place = (record.id, record.round)
        known = self._records.get(place)
        is_repeat = known is not None and (known.outcome, known.machine) == ("ok", record.machine)
        self.repeated[place] = self.repeated[place] + 1 if is_repeat else 0
        self._records[place] = attempt_that_counts(known, record)
        if known is not None:
            self.summary.outcomes -= Counter([known.outcome])
        self.summary.outcomes[self._records[place].outcome] += 1
