"""Run a plan: rounds of shuffled cells, one at a time, each result stored before the next."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from synthbench.errors import SynthbenchError
from synthbench.measure.environment import read_environment
from synthbench.measure.parity import parity_key
from synthbench.record import Ceiling, Measurements, Outcome, Parity, Record, RunInfo
from synthbench.run.ceilings import ceiling_for, measure_ceilings
from synthbench.run.host_client import Host, HostDiedError
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.progress import Observer, Silent
from synthbench.run.resume import continue_run, require_own
from synthbench.store import append_record, create_run, locked, read_info, require_new, write_info
from synthbench.suites.cell import Cell, model_of
from synthbench.suites.plan import Plan, device_kind

NUMERICS = "synthbench.measure.environment:framework_numerics"

# Outcomes that another round would only repeat, at the same price.
SETTLED: tuple[Outcome, ...] = ("unsupported", "oom", "oom_predicted", "timeout")


@dataclass
class Summary:
    """What a call of `run_plan` did."""

    run_dir: Path
    device: str
    recorded: int = 0  # records added
    outcomes: Counter[str] = field(default_factory=Counter)  # of all records of the run
    missing: dict[str, str] = field(default_factory=dict)  # framework -> why none of its cells ran
    interrupted: bool = False


def run_plan(
    plan: Plan,
    run_dir: str | Path,
    *,
    resume: bool = False,
    plugins: Sequence[str] = (),
    observer: Observer | None = None,
) -> Summary:
    """Measure every cell of a plan into a run's folder.

    A framework that is not there, or does not see the device, is told to the observer and listed
    in Summary.missing; where none is left, nothing is written. Ctrl-C keeps what was measured and
    returns with `interrupted`. Raises ResultsError where the folder cannot be used; without
    `resume`, also where it holds something.
    """
    run_dir = Path(run_dir)
    if resume:
        require_own(plan, run_dir)
    else:
        require_new(run_dir)
    summary = Summary(run_dir, plan.device)
    run = Running(plan, summary, list(plugins), observer or Silent())
    for note in plan.notes:
        run.observer.note(note)
    try:
        run.start_hosts()
        if plan.frameworks and not run.hosts:
            return summary
        environment = read_environment(run.measure_settings.threads) | {
            "frameworks": run.devices,
            "numerics": run.numerics,
        }
        records = continue_run(plan, run_dir, environment, run.observer) if resume else None
        if records is None:
            create_run(run_dir, _info(plan, run.plugins, environment))
        with locked(run_dir):
            run.take_ceilings(records or [])
            run.measure(records or [])
            if not summary.interrupted:
                write_info(run_dir, read_info(run_dir).model_copy(update={"finished": now()}))
    except KeyboardInterrupt:
        summary.interrupted = True
    finally:
        run.stop_hosts()
        run.observer.finished()
    return summary


def now() -> str:
    """This moment, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _info(plan: Plan, plugins: list[str], environment: dict[str, Any]) -> RunInfo:
    return RunInfo(
        suite=plan.suite,
        settings=plan.settings.model_dump(mode="json"),
        device=plan.device,
        plugins=plugins,
        environment=environment,
        started=now(),
    )


class Running:
    """The state of one call of `run_plan`: hosts, parity checks and ceilings that cells share."""

    def __init__(
        self, plan: Plan, summary: Summary, plugins: list[str], observer: Observer
    ) -> None:
        self.plan, self.summary, self.plugins, self.observer = plan, summary, plugins, observer
        self.measure_settings = plan.settings.measure
        self.hosts: dict[str, Host] = {}
        self.devices: dict[str, Any] = {}
        self.numerics: dict[str, Any] = {}  # framework -> how it computes
        self.ceilings: list[Ceiling] = []
        self.parities: dict[str, Parity | Reply] = {}
        self.settled: dict[str, Record] = {}
        self.done = self.total = 0
        self.spent: list[float] = []  # seconds of each cell measured here

    def start_hosts(self) -> None:
        """Start a host for each framework, and see that it has the device."""
        for framework in self.plan.frameworks:
            self.hosts[framework] = Host(
                framework,
                plugins=self.plugins,
                threads=self.measure_settings.threads,
                device_kind=device_kind(self.plan.device),
            )
            self.hosts[framework].launch()  # all import at the same time
        for name, host in list(self.hosts.items()):
            try:
                seen = host.devices(require=self.plan.device)
                self.devices[name] = {device.name: device.description for device in seen}
                self.numerics[name] = host.call(NUMERICS, {"framework": name})
            except SynthbenchError as error:
                self.drop(name, str(error))

    def drop(self, framework: str, reason: str) -> None:
        """Go on without a framework."""
        self.hosts.pop(framework).stop()
        self.summary.missing[framework] = reason
        self.observer.note(reason)

    def stop_hosts(self) -> None:
        """End every host."""
        for host in self.hosts.values():
            host.stop()

    def take_ceilings(self, records: Sequence[Record]) -> None:
        """Measure the ceilings that cells still to be measured need and run.json does not have."""
        info = read_info(self.summary.run_dir)
        self.ceilings = info.ceilings
        if not self.measure_settings.ceiling:
            return
        times = Counter(record.id for record in records)
        pending = [c for c in self.plan.cells if times[c.id] < self.measure_settings.rounds]
        found = measure_ceilings(self.hosts, pending, info.ceilings, self.observer)
        if found:
            self.ceilings = [*info.ceilings, *found]
            write_info(self.summary.run_dir, info.model_copy(update={"ceilings": self.ceilings}))

    def measure(self, records: Sequence[Record]) -> None:
        """Record every cell of every round that is not among `records`."""
        if self.measure_settings.force:  # what was predicted only is still to be measured
            records = [record for record in records if record.outcome != "oom_predicted"]
        recorded = {(record.id, record.round) for record in records}
        self.settled = {r.id: r for r in records if r.outcome in SETTLED}
        self.summary.outcomes.update(record.outcome for record in records)
        rounds = self.measure_settings.rounds
        jobs = [
            (number, cell)
            for number in range(rounds)
            for cell in self.plan.order(number)
            if (cell.id, number) not in recorded and cell.framework in self.hosts
        ]
        skips = [skip for skip in self.plan.skipped if (skip.cell.id, 0) not in recorded]
        self.done, self.total = len(records), len(records) + len(jobs) + len(skips)
        self.observer.started(self.plan, self.done, self.total)
        for skip in skips:
            self.store(skip.cell, 0, now(), Reply("unsupported", skip.reason), 0)
        for position, (number, cell) in enumerate(jobs):
            if cell.framework not in self.hosts:
                self.total -= 1
                continue
            begin, started = time.monotonic(), now()
            self.observer.cell_started(cell, number)
            reply = self.reply_for(cell)
            self.spent.append(time.monotonic() - begin)
            if cell.framework in self.hosts:
                self.store(cell, number, started, reply, len(jobs) - position - 1)

    def reply_for(self, cell: Cell) -> Reply:
        """Check a cell's parity where that is still to be done, then measure it."""
        if (earlier := self.settled.get(cell.id)) is not None:
            measured = {"measurements": earlier.measurements.model_dump(mode="json")}
            reason = f"as in round {earlier.round}: {earlier.reason}"
            return Reply(earlier.outcome, reason, measured, facts=earlier.host)
        checked = self.parity_of(cell) if self.measure_settings.parity else None
        if isinstance(checked, Reply):
            return checked
        parity = None if checked is None else checked.model_dump(mode="json")
        ceiling = ceiling_for(cell, self.ceilings)
        content = {
            "cell": cell.model_dump(mode="json"),
            "measure": self.measure_settings.model_dump(mode="json"),
            "parity": parity,
            "ceiling": None if ceiling is None else ceiling.model_dump(mode="json"),
        }
        reply = self.ask(cell.framework, Job("cell", content, self.limits()))
        if reply.result is None:  # it ended before it could tell anything
            declared = model_of(cell).parameters().values()
            known = Measurements(
                declared_parameters=sum(p.size for p in declared if p.trainable),
                parity=checked,
            )
            reply = replace(reply, result={"measurements": known.model_dump(mode="json")})
        return reply

    def parity_of(self, cell: Cell) -> Parity | Reply:
        """The parity check that this cell shares with others: passed, or the reply to store."""
        key = parity_key(cell)
        if key not in self.parities:
            job = Job("parity", {"cell": cell.model_dump(mode="json")}, self.limits())
            reply = self.ask(cell.framework, job)
            if reply.error == HostDiedError.__name__:  # that says nothing about other cells
                return reply
            found = None if reply.outcome != "ok" else Parity.model_validate(reply.result)
            answer = found if found is not None and found.passed else _failed(found, reply)
            self.parities[key] = answer
            self.observer.parity_checked(
                cell, found, answer.reason if isinstance(answer, Reply) else ""
            )
        return self.parities[key]

    def ask(self, framework: str, job: Job) -> Reply:
        """Have a job done; where the host dies of it, that is the outcome, and it starts anew."""
        begin = time.monotonic()
        host = self.hosts[framework]
        try:
            return host.run(job)
        except HostDiedError as error:
            seconds = time.monotonic() - begin
            try:
                host.start()
            except SynthbenchError as gone:
                self.drop(framework, str(gone))
            name = type(error).__name__
            return Reply("crashed", str(error), error=name, wall_seconds=seconds)

    def limits(self) -> Limits:
        """What a cell may take."""
        measure = self.measure_settings
        gigabytes = measure.memory_limit_gb
        memory = None if gigabytes is None else int(gigabytes * 1e9)
        return Limits(measure.timeout_seconds, measure.threads, memory)

    def store(self, cell: Cell, number: int, started: str, reply: Reply, remaining: int) -> None:
        """Append a record and tell of it."""
        record = record_of(cell, number, started, reply)
        append_record(self.summary.run_dir, record)
        if record.outcome in SETTLED:
            self.settled.setdefault(cell.id, record)
        self.summary.recorded += 1
        self.summary.outcomes[record.outcome] += 1
        self.done += 1
        left = remaining * sum(self.spent) / len(self.spent) if self.spent else None
        self.observer.cell_finished(record, self.done, self.total, left)


def record_of(cell: Cell, number: int, started: str, reply: Reply) -> Record:
    """The record of a cell in a round, from the reply to its job."""
    measured = (reply.result or {}).get("measurements", {})
    return Record(
        id=cell.id,
        round=number,
        cell=cell,
        outcome=reply.outcome,
        reason=reply.reason,
        measurements=Measurements.model_validate(measured),
        started=started,
        wall_seconds=reply.wall_seconds,
        host=reply.facts,
    )


def _failed(parity: Parity | None, reply: Reply) -> Reply:
    """The reply of a cell whose parity check did not pass."""
    if parity is None:
        if reply.outcome == "unsupported":
            return reply
        reason = f"parity could not be checked: {reply.outcome}: {reply.reason}"
        return replace(reply, outcome="quarantined", reason=reason, result=None)
    gradient_tolerance = parity.gradient_tolerance or parity.tolerance
    reason = (
        f"parity failed against {parity.against}: forward error {parity.forward} (at most "
        f"{parity.tolerance}), gradient error {parity.gradient} (at most {gradient_tolerance})"
    )
    measured = Measurements(parity=parity).model_dump(mode="json")
    return Reply("quarantined", reason, {"measurements": measured}, facts=reply.facts)
