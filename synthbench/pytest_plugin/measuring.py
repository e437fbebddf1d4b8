"""Measure an item with the harness, in a child process of its framework's host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from synthbench.errors import FrameworkMissingError, SynthbenchError
from synthbench.measure.environment import machine_id
from synthbench.measure.kernel_cache import cache_file
from synthbench.record import Outcome, Record, now
from synthbench.report.export.benchmark import extra_info, parameters_of, samples_of, worst
from synthbench.run.cell_runner import CellRunner, record_of
from synthbench.run.choosing_kernels import choose_kernels
from synthbench.run.progress import Silent
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan

SKIPPED: tuple[Outcome, ...] = ("oom", "oom_predicted", "unsupported")

NO_STEPS = "task {} has no times of steps; measure it with `synthbench run`"

# For disabled benchmarks: just enough to see that a cell runs.
UNTIMED = {
    "rounds": 1, "min_samples": 1, "min_seconds": 1e-9, "max_seconds": 1e-3, "precision": None,
    "ceiling": False, "kernel_seconds": 0.0,
}  # fmt: skip


class CellFailedError(Exception):
    """A cell that crashed, timed out or was quarantined; the text has outcome and reason."""


class Bench:
    """The host processes of one suite, one per framework, and what its cells share."""

    def __init__(self, plan: Plan, plugins: Sequence[str], notes: list[str]) -> None:
        self.plan, self.plugins, self.notes = plan, list(plugins), notes
        self.runner: CellRunner | None = None
        self.error: SynthbenchError | None = None  # why no host process can be used
        self.machine = ""

    def start(self, cells: Iterable[Cell], *, timed: bool) -> None:
        """Start the host processes of these cells, measure ceilings and choose kernels, once.

        Raises SynthbenchError if the device cannot be locked, each time.
        """
        if self.error is not None:
            raise self.error
        if self.runner is not None:
            return
        cells, measure = list(cells), self.plan.settings.measure
        if not timed:
            measure = measure.model_copy(update=UNTIMED)
        runner = CellRunner(measure, self.plan.device, self.plugins, _Notes(self.notes))
        self.runner = runner
        try:
            runner.start(dict.fromkeys(cell.framework for cell in cells))
            environment = runner.environment()
            self.machine = machine_id(environment)
            if measure.ceiling:
                runner.measure_ceilings(cells)
            if measure.kernel_seconds and cells:
                choose_kernels(runner, cells, cache_file(environment))
        except SynthbenchError as error:
            self.stop()
            self.error = error
            raise

    def measure(self, cell: Cell) -> list[Record]:
        """One record per round of a cell, up to the first that is not ok.

        Raises FrameworkMissingError if its framework or the device is not available.
        """
        runner = self.runner
        assert runner is not None
        records: list[Record] = []
        for number in range(runner.measure.least_rounds):
            if cell.framework not in runner.hosts:
                raise FrameworkMissingError(runner.missing[cell.framework])
            with runner.lock_for(cell).held():
                started = now()
                reply = runner.reply_for(cell, number)
            records.append(record_of(cell, number, started, reply, self.machine))
            if reply.outcome != "ok":
                break
        return records

    def version(self, framework: str) -> str:
        """The version of a framework whose host is running."""
        assert self.runner is not None
        return self.runner.hosts[framework].version

    def stop(self) -> None:
        """End the hosts."""
        runner, self.runner = self.runner, None
        if runner is not None:
            runner.stop()


class Replay:
    """Replays measured times as steps, with a clock that only these steps advance."""

    def __init__(self) -> None:
        self.samples = iter([0.0])
        self.now = 0.0

    def reset(self) -> None:
        """Start a step at zero, so that its time is exact."""
        self.now = 0.0

    def step(self) -> None:
        """Advance the clock by the next sample; by nothing after the last one."""
        self.now = next(self.samples, 0.0)

    def synthbench(self) -> float:
        """The clock; pytest-benchmark stores its name as the timer."""
        return self.now


def measure_item(
    bench: Bench, selected: Iterable[Cell], cell: Cell, name: str, benchmark: Any, replay: Replay
) -> None:
    """Measure a cell and pass its samples to the `benchmark` fixture; fail or skip like the cell.

    `selected`: all cells that the session measures. `replay.synthbench` must be the timer of the
    fixture.
    """
    try:
        bench.start(selected, timed=benchmark.enabled)
        records = bench.measure(cell)
    except SynthbenchError as error:
        benchmark.pedantic(_fail, (str(error),))
        return
    deciding = worst(records)
    if deciding.outcome in SKIPPED:
        pytest.skip(f"{name}: {deciding.outcome}: {deciding.reason}")
    if deciding.outcome != "ok":
        benchmark.pedantic(_fail, (f"{deciding.outcome}: {deciding.reason}",))
        return
    samples = samples_of(records)
    if not samples:
        pytest.skip(f"{name}: unsupported: {NO_STEPS.format(cell.task)}")
    warnings = extra_info(records)["warnings"]
    bench.notes += [f"{name}: {warning}" for warning in warnings if benchmark.enabled]
    benchmark.fullname = f"{bench.plan.suite}::{name}"  # the same as in an exported file
    benchmark.param, benchmark.params = name, parameters_of(cell)
    benchmark.extra_info |= extra_info(records)
    benchmark.extra_info["framework_version"] = bench.version(cell.framework)
    replay.samples = iter(samples)
    benchmark.pedantic(replay.step, setup=replay.reset, rounds=len(samples))


def _fail(reason: str) -> None:
    """Fail inside the benchmarked function, so that pytest-benchmark stores no times."""
    raise CellFailedError(reason)


class _Notes(Silent):
    """Collects notes for the end of the session."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def note(self, text: str) -> None:
        self.notes.append(text)
