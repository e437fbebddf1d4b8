"""Measure work in one place of this machine: one cell at a time, in child processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from synthbench.measure.environment import machine_id, machine_kind
from synthbench.measure.kernel_cache import cache_file
from synthbench.measure.parity_cache import ParityCache, parity_file
from synthbench.measure.program_cache import use_program_folder
from synthbench.record import Record
from synthbench.registry import has_installed_extensions
from synthbench.run.cell_runner import CellRunner
from synthbench.run.choosing_kernels import choose_kernels
from synthbench.run.executors.base import Executor, Work
from synthbench.run_info import Machine
from synthbench.suites.pairing import baselines_of


class OnePlace(Executor):
    """A host process per framework, a child process per cell, rounds over all shards.

    `place`: what a record's machine says of where on the machine it is; empty: all of it.
    """

    def __init__(self, place: str = "") -> None:
        self.place = place
        self.runner: CellRunner | None = None

    def start(self, work: Work) -> Mapping[str, str]:
        plan = work.plan
        self.runner = CellRunner(
            plan.settings.measure, plan.device, work.plugins, work.observer, work.run_dir
        )
        self.runner.start(plan.frameworks)
        return self.runner.missing

    def measure(self, work: Work) -> Iterator[Machine | Record]:
        runner, measure = self.runner, work.plan.settings.measure
        assert runner is not None
        pending = [each for each in work.pending() if each[1].framework in runner.hosts]
        environment = runner.environment()
        if self.place:
            environment["place"] = self.place
        own = machine_id(environment)
        runner.machine_kind = machine_kind(environment)
        runner.planned = work.planned
        # Each machine chooses its own kernels, and may be able to do what another one could not.
        work = replace(
            work,
            earlier=[record for record in work.earlier if record.machine in ("", own)],
            settled=[record for record in work.settled if record.machine in ("", own)],
        )
        known = [machine for machine in work.machines if machine.id == own]
        runner.ceilings = runner.ceilings or [c for machine in known for c in machine.ceilings]
        runner.choices = [c for machine in known for c in machine.choices]
        yield runner.machine(own, environment)
        cells = [cell for _, cell in pending]
        if measure.ceiling and runner.measure_ceilings(cells):
            yield runner.machine(own, environment)
        runner.remember_kernels(work.earlier)
        # A plug-in can change any code, and its own may change without a trace.
        has_plugins = bool(work.plugins) or has_installed_extensions()
        if measure.parity and not measure.parity_again and not has_plugins:
            runner.checks.kept = ParityCache(parity_file(environment))
        if not measure.compile_again and not has_plugins:
            runner.programs = use_program_folder(environment)
        if measure.kernel_seconds and cells:
            baseline = work.plan.settings.baseline
            choose_kernels(runner, cells, cache_file(environment), work.earlier, baseline)
        if runner.choices:
            yield runner.machine(own, environment)
        runner.settle(work.settled)
        every = [cell for shard in work.shards for cell in shard.cells]
        runner.baselines = baselines_of(every, work.plan.settings.baseline, measure.paired)
        for number, cell in pending:
            if cell.framework not in runner.hosts:
                continue
            record = runner.measure_cell(cell, number, own)
            if record is not None:
                attempt = work.attempts.get((cell.id, number), 0)
                yield record.model_copy(update={"attempt": attempt})

    def kind_of(self, device: str) -> str:
        """What the frameworks say that a device is; empty if none has seen it."""
        seen = {} if self.runner is None else self.runner.devices
        return ", ".join(sorted({names[device] for names in seen.values() if device in names}))

    def missing(self) -> Mapping[str, str]:
        return {} if self.runner is None else self.runner.missing

    def interrupt(self) -> None:
        """End what is measured in another thread: its records are not to be stored any more."""
        if self.runner is not None:
            self.runner.interrupt()

    def stop(self) -> None:
        if self.runner is not None:
            self.runner.stop()
