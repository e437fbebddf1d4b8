"""A job that measures one shard on the machine it runs on, and goes on from other jobs' files.

`python -m synthbench.run.shard_job FOLDER SHARD`, where the run's folder holds an order for the
shard. Exit code 0: nothing of the order is left; STOPPED: it was asked to stop; 1: an error, which
it prints.

SIGUSR1, SIGUSR2: it ends after the cell in progress (schedulers announce the end of the time limit
like this). SIGTERM: it ends at once, and nothing is stored of a cell that the signal has ended too.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from synthbench.errors import SynthbenchError, UnsupportedError
from synthbench.measure.environment import machine_id, read_environment
from synthbench.record import Record, latest, next_attempts
from synthbench.run.executors.base import Work
from synthbench.run.executors.local import LocalExecutor
from synthbench.run.measuring import (
    Progress,
    Summary,
    measure_disturbed_again,
    measure_pending,
)
from synthbench.run.orders import Order, read_order, store_node
from synthbench.run.progress import Observer, PlainProgress
from synthbench.run.same_code import require_same_code
from synthbench.run.shard_files import ShardWriter
from synthbench.run_info import Machine
from synthbench.store import read_run

STOPPED = 75  # the exit code of what can go on later: EX_TEMPFAIL
# Who ends a job signals all its processes, one after the other: a host may be dead before its job
# knows that it must stop. Within this time the signal for the job has come, or it is dead too.
SIGNAL_SECONDS = 1.0


class StoppedError(BaseException):
    """The job was asked to stop, and everything that it measured is stored."""


class Stop:
    """Whether this process was asked to stop; a handler of signals."""

    def __init__(self) -> None:
        self.asked = self._ending = False

    def __call__(self, number: int, frame: Any) -> None:
        self.asked = True
        if number == signal.SIGTERM and not self._ending:
            self._ending = True
            raise StoppedError

    def listen(self) -> None:
        """Stop at the signals that schedulers send."""
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self)


class _Sink(ShardWriter):
    """Stores records as long as nobody asks to stop."""

    def __init__(self, run_dir: Path, order: Order, stop: Callable[[], bool]) -> None:
        super().__init__(run_dir, order.shard.name, order.id)
        self.stop = stop
        self.seconds = 0.0  # that the stored cells took

    def store(self, record: Record) -> None:
        if record.outcome == "crashed":
            time.sleep(SIGNAL_SECONDS)
            self.end_if_asked()  # what has ended this job may have ended the cell
        super().store(record)
        self.seconds += record.wall_seconds
        self.end_if_asked()

    def add_machine(self, machine: Machine) -> None:
        super().add_machine(machine)
        self.end_if_asked()

    def end_if_asked(self) -> None:
        """Raise StoppedError if the job was asked to stop."""
        if self.stop():
            raise StoppedError


def measure_shard(
    run_dir: Path, shard: str, observer: Observer, stop: Callable[[], bool] = lambda: False
) -> bool:
    """Measure what is left of the order for a shard; False if it stopped before that was done.

    Every record is on disk, in a file of this job alone, before the next cell begins. What another
    machine has measured of the shard is measured again: ratios are taken within one machine.
    Raises ResultsError where the folder cannot be used, and UnsupportedError on a machine with
    other versions or other code than those that measured before.
    """
    begun = time.monotonic()
    order = read_order(run_dir, shard)
    environment = read_environment(order.plan.settings.measure.threads)
    own = machine_id(environment)
    records = records_of(run_dir, order)
    sink = _Sink(run_dir, order, stop)
    store_node(run_dir, sink.name)
    sink.add_machine(Machine(id=own, environment=environment))
    try:
        require_same_code(run_dir, sink.name, order, environment)
    except UnsupportedError as error:
        sink.update(machine=None, refused=str(error))
        raise
    work = work_left(run_dir, order, records, own, observer)
    work.machines = sink.machines()
    known = {(r.id, r.round): r for r in latest(records) if r.machine in (own, "")}
    work.done |= known.keys() - work.attempts.keys()
    is_repeat = any(known[p].outcome == "ok" for p in known.keys() & work.attempts.keys())
    work.attempts = next_attempts(records) | work.attempts
    executor = LocalExecutor()
    try:
        executor.start(work)
        kept = [record for record in records if (record.id, record.round) in known]
        progress = Progress(work, Summary(run_dir, order.plan.device), sink, kept)
        if is_repeat:
            executor.wait_for_quiet()
        measure_pending(executor, work, progress)
        measure_disturbed_again(executor, work, progress)
    except StoppedError:
        return False
    finally:
        executor.stop()
        observer.finished()
        sink.update(missing=dict(executor.missing()))
    overhead = time.monotonic() - begun - sink.seconds
    sink.update(finished=True, overhead_seconds=max(0.0, overhead))
    return True


def records_of(run_dir: Path, order: Order) -> list[Record]:
    """The records of a shard, all attempts, whoever measured them."""
    own = {cell.id for cell in order.plan.cells}
    found = read_run(run_dir, order.shard.name).records
    return [r for r in found if r.id in own and order.shard.has_round(r.round)]


def work_left(
    run_dir: Path, order: Order, records: Sequence[Record], machine: str, observer: Observer
) -> Work:
    """What a machine has to measure for an order, in view of the records of its shard.

    That is what the order asks for and this machine has not recorded, and what other machines have.
    """
    attempts, following = dict(order.places), next_attempts(records)
    for record in latest(records):
        place = (record.id, record.round)
        if record.machine not in (machine, ""):
            attempts[place] = following[place]
        elif following[place] > attempts.get(place, following[place]):
            del attempts[place]
    rounds: dict[int, set[str]] = {}
    for cell, number in sorted(attempts, key=lambda place: place[1]):
        rounds.setdefault(number, set()).add(cell)
    return Work(
        order.plan, [order.shard], order.plugins, observer,
        rounds={number: frozenset(cells) for number, cells in rounds.items()},
        # Without rounds, all rounds would be pending.
        done=set() if rounds else _every_place(order), attempts=attempts, run_dir=run_dir,
    )  # fmt: skip


def _every_place(order: Order) -> set[tuple[str, int]]:
    rounds = range(order.plan.settings.measure.least_rounds)
    return {(cell.id, number) for cell in order.plan.cells for number in rounds}


def main(folder: str, shard: str) -> int:
    """Measure a shard; the exit code."""
    stop = Stop()
    stop.listen()
    try:
        done = measure_shard(Path(folder), shard, PlainProgress(), lambda: stop.asked)
    except StoppedError:  # before it began to measure
        return STOPPED
    except SynthbenchError as error:
        sys.stderr.write(f"synthbench: {error}\n")
        return 1
    return 0 if done else STOPPED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
