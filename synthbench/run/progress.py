"""Progress of a run: a bar on a terminal, plain lines elsewhere; both on standard error."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from typing import Any, Protocol, TextIO

from synthbench.errors import SynthbenchError
from synthbench.metrics import significant
from synthbench.printable import lines
from synthbench.record import Parity, Record, Training
from synthbench.run.cell_words import describe, varying
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan
from synthbench.tasks.catalog import find as find_task

SECONDS_BETWEEN_LINES = 30.0  # of a cell that takes long, where there is no terminal


class Observer(Protocol):
    """Is notified by the runner of what happens."""

    def started(self, plan: Plan, done: int, total: int) -> None:
        """A run begins; `done` of its `total` records exist already."""

    def cell_started(self, cell: Cell, round_number: int) -> None:
        """A cell is about to be measured."""

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        """A parity check is done; `parity` is None if it could not be done, for this reason."""

    def cell_progressed(self, cell: Cell, text: str, seconds_left: float) -> None:
        """A cell that takes long says how far it is."""

    def cell_finished(
        self, record: Record, done: int, total: int, seconds_left: float | None
    ) -> None:
        """A record is stored; `seconds_left` is None if that is not known yet."""

    def stage(self, text: str) -> None:
        """Something other than a cell begins, which takes a while."""

    def note(self, text: str) -> None:
        """Something the user should know."""

    def finished(self) -> None:
        """The run is over, or interrupted."""


class Silent:
    """An observer that says nothing."""

    def started(self, plan: Plan, done: int, total: int) -> None: ...
    def cell_started(self, cell: Cell, round_number: int) -> None: ...
    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None: ...
    def cell_progressed(self, cell: Cell, text: str, seconds_left: float) -> None: ...
    def cell_finished(
        self, record: Record, done: int, total: int, seconds_left: float | None
    ) -> None: ...
    def stage(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def finished(self) -> None: ...


class PlainProgress(Silent):
    """One line per record and per note."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.said = time.monotonic()  # when the last line was printed
        self.varying: tuple[str, ...] = ()

    def started(self, plan: Plan, done: int, total: int) -> None:
        self.varying = varying(plan.cells)
        already = f", {done} already recorded" if done else ""
        self._say(f"suite {plan.suite} on {plan.device}: {total} records{already}")

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        if reason:
            self._say(f"parity {cell.framework} {cell.variant}: {reason}")

    def cell_finished(
        self, record: Record, done: int, total: int, seconds_left: float | None
    ) -> None:
        left = f"; {duration(seconds_left)} left" if seconds_left is not None else ""
        self._say(f"[{done}/{total}] {describe(record.cell, self.varying)}: {result(record)}{left}")

    def cell_progressed(self, cell: Cell, text: str, seconds_left: float) -> None:
        if time.monotonic() - self.said >= SECONDS_BETWEEN_LINES:
            self._say(
                f"{describe(cell, self.varying)}: {text}; {duration(seconds_left)} left for it"
            )

    def stage(self, text: str) -> None:
        self._say(text)

    def note(self, text: str) -> None:
        self._say(text)

    def _say(self, line: str) -> None:
        self.said = time.monotonic()
        print(lines(line), file=self.stream, flush=True)


class RichProgress(Silent):
    """A bar with the time left and the current cell; problems stay visible above it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.bar: Any = Progress(
            TextColumn("{task.fields[suite]}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[cell]}", style="dim", markup=False),
            console=Console(file=stream or sys.stderr),
            auto_refresh=False,  # a drawing thread would use the measured cores
            transient=True,
        )
        self.task: Any = None
        self.varying: tuple[str, ...] = ()

    def started(self, plan: Plan, done: int, total: int) -> None:
        self.varying = varying(plan.cells)
        self.bar.start()
        self.task = self.bar.add_task(
            "", total=total, completed=done, suite=plan.suite, left="", cell=""
        )

    def cell_started(self, cell: Cell, round_number: int) -> None:
        self._update(cell=describe(cell, self.varying))

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        if reason:
            self.note(f"parity {cell.framework} {cell.variant}: {reason}")

    def cell_finished(
        self, record: Record, done: int, total: int, seconds_left: float | None
    ) -> None:
        left = "" if seconds_left is None else f"{duration(seconds_left)} left"
        self._update(completed=done, left=left)
        if record.outcome not in ("ok", "unsupported"):
            self.note(f"{describe(record.cell, self.varying)}: {result(record)}")

    def cell_progressed(self, cell: Cell, text: str, seconds_left: float) -> None:
        self._update(
            cell=f"{describe(cell, self.varying)}: {text}; {duration(seconds_left)} left for it"
        )

    def stage(self, text: str) -> None:
        self._update(cell=text)

    def note(self, text: str) -> None:
        self.bar.console.print(lines(text), markup=False, highlight=False, emoji=False)

    def finished(self) -> None:
        self.bar.stop()

    def _update(self, **fields: Any) -> None:
        if self.task is not None:
            shown = {name: lines(v) if isinstance(v, str) else v for name, v in fields.items()}
            self.bar.update(self.task, refresh=True, **shown)


def make_observer(stream: TextIO | None = None) -> Observer:
    """A bar if the stream (standard error by default) is a terminal, else plain lines."""
    stream = stream or sys.stderr
    return RichProgress(stream) if stream.isatty() else PlainProgress(stream)


def result(record: Record) -> str:
    """A record's outcome in a few words."""
    timing, training = record.measurements.timing, record.measurements.training
    if record.outcome == "ok" and training is not None:
        return _score(record.cell.task, training) or record.outcome
    if record.outcome != "ok" or timing is None:
        return f"{record.outcome}: {record.reason}" if record.reason else record.outcome
    milliseconds = significant(statistics.median(timing.samples) * 1e3)
    return f"{milliseconds} ms/step" + (f" ({record.reason})" if record.reason else "")


def _score(task: str, training: Training) -> str:
    """What a training ended with, as tables have it; empty if its task has not scored it."""
    values = training.evaluations[-1].metrics if training.evaluations else {}
    if (value := values.get(training.metric)) is None:
        return ""
    with contextlib.suppress(SynthbenchError, KeyError):  # a plug-in's, imported only in children
        declared = find_task(task).metrics[training.metric]
        return f"{declared.label} {significant(value * declared.scale)}"
    return f"{training.metric} {significant(value)}"


def duration(seconds: float) -> str:
    """Seconds as 45 s, 3 min or 1 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
