"""A cell runner whose host runs checks in this process, and times nothing."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, cast

from synthbench.backends.base import BACKENDS, Backend
from synthbench.errors import FrameworkMissingError
from synthbench.record import Record
from synthbench.run.cell_runner import CellRunner
from synthbench.run.child import _perform
from synthbench.run.host_client import HostDiedError
from synthbench.run.job import Job, Reply
from synthbench.run.outcome import classify_exception
from synthbench.run.progress import Silent
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure

FINISHED = {"other_framework_loaded": False}
TIMED = "timed"  # the reason of a cell that would have been timed


class CheckingHost:
    """In place of a host process: remembers its jobs, and does those that check something."""

    def __init__(self, framework: str) -> None:
        self.backend = cast(Backend, importlib.import_module(BACKENDS[framework]))
        self.jobs: list[Job] = []
        self.replies: dict[str, Reply] = {}  # kind -> what to reply without doing it
        self.dies_in = ""  # the kind of job in which it dies for good

    def run(self, job: Job, watch: object = None) -> Reply:
        self.jobs.append(job)
        if job.kind == self.dies_in:
            raise HostDiedError("its host process ended")
        if job.kind == "cell":
            measured = {"measurements": {"parity": job.content["parity"]}}
            return Reply("ok", TIMED, measured, facts=FINISHED)
        if job.kind in self.replies:
            return self.replies[job.kind]
        stages: Any = SimpleNamespace(facts={})
        try:
            result, _ = _perform(self.backend, job, stages)
        except Exception as error:
            outcome, reason = classify_exception(error)
            return Reply(outcome, reason, facts=FINISHED)
        return Reply("ok", "", result, facts=FINISHED)

    def start(self) -> None:
        raise FrameworkMissingError(f"{self.backend.name} is gone")

    def stop(self) -> None:
        """End nothing."""

    def kinds(self) -> list[str]:
        return [job.kind for job in self.jobs]


def checking_runner(framework: str) -> tuple[CellRunner, CheckingHost]:
    """A runner, and its only host."""
    runner = CellRunner(Measure(), "cpu", [], Silent())
    host = CheckingHost(framework)
    runner.hosts[framework] = cast(Any, host)
    return runner, host


def checked(runner: CellRunner, cell: Cell) -> Record:
    """The record of a cell."""
    record = runner.measure_cell(cell, 0, "here")
    assert record is not None
    return record


def tiny_cell(variant: str, framework: str, mode: str, seq_len: int = 8, **changes: Any) -> Cell:
    """A cell of a bare mixer at a small size."""
    content: dict[str, Any] = {
        "model": "mixer", "d_model": 16, "heads": 4, "max_len": 32, "batch": 1,
        "compile": "compiled" if framework == "jax" else "eager",
    }  # fmt: skip
    content |= {"variant": variant, "framework": framework, "mode": mode, "seq_len": seq_len}
    return Cell.from_flat(**content | changes)
