"""Run a plan: an executor measures its shards, and each record is stored before the next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from synthbench.measure.disturbed import Place, disturbed
from synthbench.record import Record, latest, next_attempts, now
from synthbench.run.cell_runner import record_of
from synthbench.run.executors.base import Executor, Work, cells_by_round
from synthbench.run.executors.local import LocalExecutor
from synthbench.run.further_rounds import Undecided, undecided
from synthbench.run.job import Reply
from synthbench.run.measuring import (
    Progress,
    RunFolder,
    measure_disturbed_again,
    measure_pending,
)
from synthbench.run.measuring import Summary as Summary
from synthbench.run.progress import Observer, Silent
from synthbench.run.resume import continue_run, require_own
from synthbench.run.shard import split_into_shards
from synthbench.run.spread import note_on_machines
from synthbench.run_files import locked
from synthbench.run_info import RunInfo
from synthbench.store import create_run, read_info, require_new, write_info
from synthbench.suites.plan import Plan

DISTURBED = "disturbed"  # in `retry`, with what `measure.disturbed` means


def run_plan(
    plan: Plan,
    run_dir: str | Path,
    *,
    resume: bool = False,
    plugins: Sequence[str] = (),
    observer: Observer | None = None,
    executor: Executor | None = None,
    retry: Collection[str] = (),
    allow_changed: bool = False,
    options: Sequence[str] | None = None,
) -> Summary:
    """Measure every cell of a plan into a run's folder.

    A framework that is not installed, or does not see the device, is reported to the observer and
    listed in Summary.missing; if none is left, nothing is written. Ctrl-C keeps what was measured
    and returns with `interrupted`; an executor whose jobs go on without this process, with
    `detached`. With `resume`, cells whose outcome is in `retry` are measured again; `disturbed` in
    it: what was so. Raises ResultsError if the folder cannot be used; without `resume`, also if it
    is not empty; with it, also if the run began on another device or with other settings, unless
    `allow_changed`, which run.json then records. `options`: of a command that measures this plan,
    for who wants to make the run again.
    """
    run_dir, executor = Path(run_dir), executor or LocalExecutor()
    observer = observer or Silent()
    if resume:
        require_own(plan, run_dir, allow_changed)
    else:
        require_new(run_dir)
    summary = Summary(run_dir, plan.device)
    shards = split_into_shards(plan.cells, plan.settings.measure.machines)
    work = Work(plan, shards, list(plugins), observer, run_dir=run_dir)
    for note in plan.notes:
        observer.note(note)
    try:
        summary.missing = dict(executor.start(work))
        if plan.frameworks and summary.missing.keys() >= set(plan.frameworks):
            return summary
        records = continue_run(plan, run_dir, observer, options) if resume else None
        if records is None:
            create_run(run_dir, _info(plan, work, executor, options))
        with locked(run_dir):
            _measure(executor, work, records or [], summary, retry)
            lost = executor.missing().keys() - summary.missing.keys()  # frameworks, on the way
            if not summary.detached and not lost:
                write_info(run_dir, read_info(run_dir).model_copy(update={"finished": now()}))
    except KeyboardInterrupt:
        summary.interrupted = True
    finally:
        executor.stop()
        summary.missing = dict(executor.missing())
        observer.finished()
    return summary


def _info(plan: Plan, work: Work, executor: Executor, options: Sequence[str] | None) -> RunInfo:
    return RunInfo(
        suite=plan.suite,
        settings=plan.settings.model_dump(mode="json"),
        device=plan.device,
        executor=executor.name,
        plugins=list(work.plugins),
        options=None if options is None else list(options),
        started=now(),
    )


def _measure(
    executor: Executor,
    work: Work,
    records: Sequence[Record],
    summary: Summary,
    retry: Collection[str],
) -> None:
    """Store what the executor measures, in addition to the `records` of the run."""
    plan, measure = work.plan, work.plan.settings.measure
    counting = latest(records)
    again = _to_retry(work, counting, {*retry, *["oom_predicted"] * measure.force})
    work.attempts = next_attempts(records)
    work.done = work.attempts.keys() - again
    work.rounds = _planned_rounds(work, again)
    work.machines = read_info(summary.run_dir).machines
    skips = [skip for skip in plan.skipped if (skip.cell.id, 0) not in work.attempts]
    sink = RunFolder(summary.run_dir, work.observer)
    progress = Progress(work, summary, sink, records, len(skips))
    for skip in skips:
        reply = Reply("unsupported", skip.reason)
        progress.store(record_of(skip.cell, 0, now(), reply))
    measure_pending(executor, work, progress)
    _measure_more(executor, work, progress)
    if executor.detached:
        summary.detached = True
        return
    if note := note_on_machines(work.shards, progress.records):
        work.observer.note(note)


def _to_retry(work: Work, records: Sequence[Record], retry: Collection[str]) -> set[Place]:
    """What is to be measured again, of the cells that a machine can measure.

    Not what the plan skips: it would be skipped again.
    """
    ids = {cell.id for shard in work.shards for cell in shard.cells}
    places = disturbed(records) if DISTURBED in retry else set()
    places |= {(record.id, record.round) for record in records if record.outcome in retry}
    return {place for place in places if place[0] in ids}


def _planned_rounds(work: Work, again: Collection[Place]) -> dict[int, frozenset[str]]:
    """The rounds of the whole plan, and of those after them what is measured again."""
    every = frozenset(cell.id for shard in work.shards for cell in shard.cells)
    least = work.plan.settings.measure.least_rounds
    planned = dict.fromkeys(range(least), every)
    return planned | cells_by_round([place for place in again if place[1] >= least])


def _undecided(progress: Progress) -> Undecided:
    """What the records so far do not decide, where the suite allows more rounds for it."""
    measure = progress.work.plan.settings.measure
    info = read_info(progress.summary.run_dir)
    return undecided(progress.records, info, measure.most_rounds)


def _measure_more(executor: Executor, work: Work, progress: Progress) -> None:
    """Add rounds for what is undecided, and repeat what was disturbed.

    Disturbed cells that verdicts wait for come before these rounds, which they may save; the others
    come after them. Where a cell that is repeated costs a verdict, there are further rounds.
    """
    measure = work.plan.settings.measure
    while not executor.detached:
        if measure.most_rounds > measure.least_rounds:
            measure_disturbed_again(executor, work, progress, lambda: _undecided(progress).cells)
        _add_rounds(executor, work, progress)
        measured = progress.done
        measure_disturbed_again(executor, work, progress)
        if progress.done == measured:
            return


def _add_rounds(executor: Executor, work: Work, progress: Progress) -> None:
    """Measure what is undecided in further rounds, within the suite's limits.

    Each round is asked for what lacks it: some cells may have had it already.
    """
    measure = work.plan.settings.measure
    left = _undecided(progress)
    for number in range(measure.least_rounds, measure.most_rounds):
        is_late = measure.minutes is not None and progress.minutes >= measure.minutes
        if is_late or executor.detached:
            return
        work.rounds = {number: left.cells}
        pending = progress.expect(work)
        if not pending:
            continue
        work.observer.note(
            f"round {number + 1}: {pending} cells, for {left.comparisons} undecided comparisons"
        )
        measure_pending(executor, work, progress)
        left = _undecided(progress)
