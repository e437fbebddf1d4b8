"""Measure cells in child processes of hosts, with the checks that cells share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from synthbench.devices import is_host
from synthbench.errors import FrameworkMissingError, SynthbenchError
from synthbench.measure.core_distance import UsualDistance
from synthbench.measure.environment import read_environment
from synthbench.record import Measurements, Outcome, PairedBaseline, Parity, Record, now
from synthbench.run.ceilings import ceiling_for, measure_ceilings
from synthbench.run.checks import Checks
from synthbench.run.device_lock import DeviceLock
from synthbench.run.folders import CAN_GO_ON, CHECKPOINTS, folder_of, remove_folders_of
from synthbench.run.host_client import Host, HostDiedError
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.kernel_choices import kernel_for
from synthbench.run.plugin_code import ENVIRONMENT_KEY
from synthbench.run.progress import Observer
from synthbench.run_info import Ceiling, KernelChoice, Machine
from synthbench.suites.cell import Cell
from synthbench.suites.measure import Measure
from synthbench.tasks.progress import read_progress

NUMERICS = "synthbench.measure.environment:framework_numerics"
PLUGIN_CODE = "synthbench.run.plugin_code:plugin_code"

# Outcomes that another round would only repeat, at the same cost.
SETTLED: tuple[Outcome, ...] = ("unsupported", "oom", "oom_predicted", "timeout")


class CellRunner:
    """A host per framework, and the parity checks and ceilings that cells share.

    `missing` says which frameworks cannot be used here, and why.
    """

    def __init__(
        self,
        measure: Measure,
        device: str,
        plugins: Sequence[str],
        observer: Observer,
        run_dir: Path | None = None,
    ) -> None:
        self.measure, self.device = measure, device
        self.run_dir = run_dir
        self.machine_kind = ""  # that this machine is of
        self.plugins, self.observer = list(plugins), observer
        self.hosts: dict[str, Host] = {}
        self.missing: dict[str, str] = {}
        self.plugin_code: dict[str, str] = {}  # module -> digest
        self.devices: dict[str, Any] = {}
        self.numerics: dict[str, Any] = {}  # framework -> how it computes
        self.ceilings: list[Ceiling] = []
        self.no_ceilings: dict[tuple[str, str, str], str] = {}  # framework, dtype, device -> why
        self.choices: list[KernelChoice] = []
        # content of a cell -> what it used first, by itself or beside another one
        self.used_kernels: dict[str, Measurements | PairedBaseline] = {}
        self.checks = Checks(observer, self.ask)
        self.baselines: Mapping[str, Cell] = {}  # id of a cell -> what is timed beside it
        self.planned: Mapping[str, Cell] = {}  # as `Work.planned`
        self.kept: TemporaryDirectory[str] | None = None  # for what its processes share
        self.programs: Path | None = None  # of earlier runs too; None: of this one alone
        self.compiled: dict[str, int] = {}  # id of a cell -> the round that has its compile time
        self.settled: dict[str, Record] = {}
        self.usual_distance = UsualDistance()  # of the cores of this machine
        self.counted: set[str] = set()  # cells of the choices of kernels that it has counted
        self.lock = DeviceLock(device, observer)
        self.locks = {1: self.lock}  # number of devices that a cell uses -> their lock

    def report_to(self, observer: Observer) -> None:
        """Notify another observer from now on."""
        self.observer = self.lock.observer = self.checks.observer = observer

    def start(self, frameworks: Iterable[str]) -> None:
        """Start a host for each framework, and check that it sees the device.

        Raises SynthbenchError if the device cannot be locked.
        """
        self.lock.check()
        self.kept = TemporaryDirectory(prefix="synthbench-", ignore_cleanup_errors=True)
        for framework in frameworks:
            self.hosts[framework] = Host(
                framework,
                plugins=self.plugins,
                threads=self.measure.threads,
                device=self.device,
            )
            self.hosts[framework].launch()  # all import at the same time
        for name, host in list(self.hosts.items()):
            try:
                seen = host.devices(require=self.device)
                self.devices[name] = {device.name: device.description for device in seen}
                self.numerics[name] = host.call(NUMERICS, {"framework": name})
                if self.plugins and not self.plugin_code:
                    self.plugin_code = host.call(PLUGIN_CODE, {"modules": self.plugins})
            except SynthbenchError as error:
                self.drop(name, str(error))

    def stop(self) -> None:
        """End every host."""
        for host in self.hosts.values():
            host.stop()
        if self.kept is not None:
            self.kept.cleanup()

    def interrupt(self) -> None:
        """End the hosts from another thread; what the cell in progress gives is of no use."""
        for lock in list(self.locks.values()):
            lock.interrupt()
        for host in list(self.hosts.values()):
            host.interrupt()

    def drop(self, framework: str, reason: str) -> None:
        """Go on without a framework."""
        self.hosts.pop(framework).stop()
        self.missing[framework] = reason
        self.observer.note(reason)

    def environment(self) -> dict[str, Any]:
        """What this machine is, with what its frameworks see."""
        found = read_environment(self.measure.threads)
        found |= {"frameworks": self.devices, "numerics": self.numerics}
        return found | ({ENVIRONMENT_KEY: self.plugin_code} if self.plugin_code else {})

    def machine(self, own: str, environment: dict[str, Any]) -> Machine:
        """This machine with what has been measured of it."""
        return Machine(
            id=own, environment=environment, ceilings=self.ceilings, choices=self.choices
        )

    def measure_ceilings(self, cells: Iterable[Cell]) -> bool:
        """Measure the ceilings that cells need and that are missing; whether one was added."""
        cells = list(cells)
        if not cells:  # nothing to wait for the device for
            return False
        with self.lock.held():
            found = measure_ceilings(self.hosts, cells, self.ceilings, self.observer)
        self.ceilings += found.ceilings
        self.no_ceilings |= found.failed
        return bool(found.ceilings)

    def settle(self, records: Iterable[Record]) -> None:
        """Remember outcomes that another round would only repeat."""
        for record in records:
            if record.outcome in SETTLED:
                self.settled.setdefault(record.id, record)

    def remember_kernels(self, records: Iterable[Record]) -> None:
        """Hold the rest of a run to the kernels that its earlier records used."""
        for record in records:
            self.with_same_kernels(record)

    def count_distances(self, choices: Iterable[KernelChoice]) -> None:
        """Count how far apart the cores were when choices were made, of each choice once."""
        for choice in choices:
            if choice.cell.id not in self.counted:
                self.counted.add(choice.cell.id)
                self.usual_distance.add(choice.core_distance)

    def measure_cell(self, cell: Cell, round_number: int, machine: str) -> Record | None:
        """The record of a cell in a round; None if its framework is no longer available."""
        with self.lock_for(cell).held():
            self.observer.cell_started(cell, round_number)
            started = now()
            if self.compiled.get(cell.id) == round_number:
                del self.compiled[cell.id]  # this record will replace the one that has it
            is_new = cell.id not in self.settled
            reply = self.reply_for(cell, round_number)
        if cell.framework not in self.hosts:
            return None
        record = record_of(cell, round_number, started, reply, machine)
        if why := self.no_ceilings.get((cell.framework, cell.dtype, cell.device)):
            record.measurements.missing["utilisation"] = why
        if is_new and (timing := record.measurements.timing) is not None:
            self.usual_distance.add(*timing.core_distances or ())
        record = self.with_same_kernels(record)
        self.settle([record])
        return record

    def lock_for(self, cell: Cell) -> DeviceLock:
        """The lock of all devices that a cell uses."""
        if cell.devices not in self.locks:
            self.locks[cell.devices] = DeviceLock(self.device, self.observer, cell.devices)
        return self.locks[cell.devices]

    def with_same_kernels(self, record: Record) -> Record:
        """The record; quarantined if an earlier one of the same content used other kernels."""
        if record.outcome != "ok":
            return record
        own, timing = record.measurements, record.measurements.timing
        if timing is not None and timing.compile_seconds is not None:
            self.compiled.setdefault(record.id, record.round)
        used: list[tuple[str, Measurements | PairedBaseline]]
        used = [(record.cell.changed(replica=0).id, own)]
        if timing is not None and timing.baseline is not None:
            used.append((timing.baseline.id, timing.baseline))
        for cell_id, found in used:
            before = self.used_kernels.setdefault(cell_id, found)
            choices = found.kernel_choice, before.kernel_choice
            if found.kernels == before.kernels and None in choices:
                continue
            if (found.kernels, found.kernel_choice) == (before.kernels, before.kernel_choice):
                continue
            what = "it" if found is own else "the baseline beside it"
            reason = (
                f"{what} used other kernels ({_kernels(found)}) than the same cell earlier in this "
                f"run ({_kernels(before)}), so the two cannot be compared"
            )
            return record.model_copy(update={"outcome": "quarantined", "reason": reason})
        return record

    def reply_for(self, cell: Cell, round_number: int) -> Reply:
        """Check a cell's parity if that has not been done yet, then do its task."""
        if (earlier := self.settled.get(cell.id)) is not None:
            measured = {"measurements": earlier.measurements.model_dump(mode="json")}
            reason = f"as in round {earlier.round}: {earlier.reason}"
            return Reply(earlier.outcome, reason, measured, facts=earlier.host)
        checked: Parity | Reply | None = None
        if self.measure.parity:
            checked = self.checks.check(cell, kernel_for(cell, self.choices), self.limits())
        if isinstance(checked, Reply):
            return checked
        if cell.framework not in self.hosts:  # its host died and could not be restarted
            return Reply("crashed", self.missing[cell.framework])
        ceiling = ceiling_for(cell, self.ceilings)
        baseline = self.baselines.get(cell.id)
        if baseline is not None and self.measure.parity:
            kernel = kernel_for(baseline, self.choices)
            parity = self.checks.parity_of(baseline, kernel, self.limits())
            baseline = baseline if isinstance(parity, Parity) else None
            if cell.framework not in self.hosts:
                return Reply("crashed", self.missing[cell.framework])
        content: dict[str, Any] = {
            "cell": cell.model_dump(mode="json"),
            "kernel": kernel_for(cell, self.choices),
            "measure": self.measure.model_dump(mode="json"),
            "parity": None if checked is None else checked.model_dump(mode="json"),
            "ceiling": None if ceiling is None else ceiling.model_dump(mode="json"),
            "folders": [None, None],
            "programs": None,
            "baseline": None,
            "cores_may_be_near": self.usual_distance.is_near,
            "planned": None,
        }
        if (planned := self.planned.get(cell.id)) is not None:
            content["planned"] = planned.model_dump(mode="json")
        if self.kept is not None and is_host(cell.device) and cell.devices == 1:
            content["programs"] = [
                self.kept.name if self.programs is None else str(self.programs),
                self.kept.name,
                cell.id in self.compiled,
            ]
        if baseline is not None:
            kernel = kernel_for(baseline, self.choices)
            content["baseline"] = {
                "cell": baseline.model_dump(mode="json"),
                "kernel": kernel,
            }
        watch = None
        if self.run_dir is not None:
            folder = folder_of(self.run_dir, cell, round_number, self.machine_kind)
            content["folders"] = [str(folder), str(self.run_dir / CHECKPOINTS)]
            watch = partial(self._show_progress, cell, folder)
        reply = self.ask(cell.framework, Job("cell", content, self.limits()), watch)
        if self.run_dir is not None and reply.outcome not in CAN_GO_ON:
            remove_folders_of(self.run_dir, cell, round_number)
        if reply.result is None:  # it ended before it could report anything
            known = Measurements(parity=checked)
            reply = replace(reply, result={"measurements": known.model_dump(mode="json")})
        return reply

    def _show_progress(self, cell: Cell, folder: Path) -> None:
        """Pass on what a cell in progress says of itself."""
        if (said := read_progress(folder)) is not None:
            self.observer.cell_progressed(cell, *said)

    def ask(self, framework: str, job: Job, watch: Callable[[], None] | None = None) -> Reply:
        """Run a job; a host that dies while running it is the outcome, and is restarted.

        `watch` is called now and then while the job runs.
        """
        begin = time.monotonic()
        host = self.hosts[framework]
        try:
            return host.run(job, watch)
        except FrameworkMissingError as gone:  # it died in a call and cannot be restarted
            self.drop(framework, str(gone))
            return Reply("crashed", str(gone), wall_seconds=time.monotonic() - begin)
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
        gigabytes = self.measure.memory_limit_gb
        memory = None if gigabytes is None else int(gigabytes * 1e9)
        return Limits(self.measure.timeout_seconds, self.measure.threads, memory)


def record_of(
    cell: Cell, round_number: int, started: str, reply: Reply, machine: str = ""
) -> Record:
    """The record of a cell in a round, from the reply to its job."""
    measured: Mapping[str, Any] = (reply.result or {}).get("measurements", {})
    return Record(
        id=cell.id,
        round=round_number,
        cell=cell,
        outcome=reply.outcome,
        reason=reply.reason,
        measurements=Measurements.model_validate(measured),
        machine=machine,
        started=started,
        wall_seconds=reply.wall_seconds,
        host=reply.facts,
    )


def _kernels(measured: Measurements | PairedBaseline) -> str:
    """What a cell used, in words."""
    chosen = measured.kernel_choice
    return ", ".join(measured.kernels if chosen is None else [*measured.kernels, chosen.name])
