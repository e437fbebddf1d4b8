"""Run mutants, several at a time; each result is stored at once, so a run can be continued."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from tests.mutants import sandbox
from tests.mutants.generate import Mutant
from tests.mutants.records import TestFile, recording_job
from tests.mutants.selection import BUDGET, plan

KILLED, TIMED_OUT, SURVIVED = "killed", "timeout", "survived"


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: str  # its key
    line: int
    diff: list[str]
    outcome: str
    killer: str  # the test that failed, or how the tests ended
    tests: int  # that were chosen
    left: int  # that might notice it and were not run
    seconds: float


class Job(NamedTuple):
    """What a slot runs next in a forked child."""

    run: Callable[[], int]
    limit: float


# Yields jobs, is sent the outcome of each (sandbox.PASSED, ...).
Work = Generator[Job, int, None]


class Slot(NamedTuple):
    """A copy of the tree, and a place for what its tests write."""

    tree: Path
    scratch: Path

    @property
    def log(self) -> Path:
        return self.scratch.with_suffix(".log")

    @property
    def report(self) -> Path:
        return self.scratch.with_suffix(".json")


def make_slots(root: Path, work: Path, count: int) -> list[Slot]:
    """Copy the tree once per job that runs at the same time."""
    slots = [Slot(work / f"tree{n}", work / f"scratch{n}") for n in range(count)]
    for slot in slots:
        sandbox.copy_tree(root, slot.tree)
    return slots


def run_all(slots: list[Slot], tasks: Iterable[Callable[[Slot], Work]]) -> None:
    """Run each task in the next free slot, one forked child at a time per slot."""
    waiting = iter(tasks)
    running: dict[int, tuple[Slot, Work]] = {}  # process id -> who waits for it

    def go_on(slot: Slot, work: Work | None, outcome: int | None) -> None:
        while True:
            if work is None:
                task = next(waiting, None)
                if task is None:
                    return
                work, outcome = task(slot), None
            try:
                job = next(work) if outcome is None else work.send(outcome)
            except StopIteration:
                work = None
                continue
            running[sandbox.start(slot.tree, job.run, slot.log, job.limit)] = (slot, work)
            return

    try:
        for slot in slots:
            go_on(slot, None, None)
        while running:
            process, status = os.wait()
            if process in running:
                slot, work = running.pop(process)
                go_on(slot, work, os.waitstatus_to_exitcode(status))
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, 15)


def judge(
    mutant: Mutant,
    records: Mapping[str, TestFile],
    done: Callable[[Result], None],
    budget: float = BUDGET,
) -> Callable[[Slot], Work]:
    """A task: run the tests for a mutant until one fails, and pass the result to `done`."""

    def work(slot: Slot) -> Work:
        started = time.monotonic()
        chosen = plan(mutant, records, budget)
        outcome, killer = SURVIVED, ""
        file = slot.tree / mutant.path
        sandbox.write_source(file, mutant.source())
        try:
            for selection in chosen.batches:
                slot.report.unlink(missing_ok=True)
                run = sandbox.pytest_job(selection, slot.report, slot.scratch)
                status = yield Job(run, selection.limit)
                if status == sandbox.TIMEOUT:
                    outcome, killer = TIMED_OUT, f"not done after {selection.limit:.0f} s"
                elif status != sandbox.PASSED:
                    outcome, killer = KILLED, _killer(slot)
                if outcome != SURVIVED:
                    break
        finally:
            sandbox.write_source(file, mutant.module.code)
        tests = sum(len(selection.tests) for selection in chosen.batches)
        seconds = round(time.monotonic() - started, 1)
        done(
            Result(mutant.key, mutant.line, mutant.diff(), outcome, killer, tests, chosen.left,
                   seconds)
        )  # fmt: skip

    return work


def _killer(slot: Slot) -> str:
    if slot.report.exists():
        return str(json.loads(slot.report.read_text())["failed"])
    return "pytest did not start: " + " ".join(slot.log.read_text().split()[-30:])


def record(
    test_file: str, packages: Iterable[str], target: Path, limit: float
) -> Callable[[Slot], Work]:
    """A task: record which functions the tests of a file execute."""

    def work(slot: Slot) -> Work:
        started = time.monotonic()
        status = yield Job(recording_job(test_file, packages, target, slot.scratch), limit)
        seconds = time.monotonic() - started
        note = "" if status == sandbox.PASSED else f": no record, see {slot.log}"
        print(f"  {test_file}: {seconds:.0f} s{note}", flush=True)

    return work


def append(file: Path, result: Result, digest: str) -> None:
    """Store a result at once."""
    with file.open("a") as stream:
        stream.write(json.dumps({"tree": digest, **asdict(result)}) + "\n")


def read(file: Path, digest: str | None) -> dict[str, Result]:
    """The results so far of a tree (package and tests, by digest; None: any): key -> result."""
    if not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    found = [Result(**row) for row in rows if row.pop("tree") == digest or digest is None]
    return {result.mutant: result for result in found}
