"""Choose the kernels for a plan anew, and keep them for later runs on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from synthbench.measure.kernel_cache import cache_file, read_choices, store_choices
from synthbench.run.cell_runner import CellRunner
from synthbench.run.kernel_choices import Race
from synthbench.run.progress import Observer
from synthbench.run_info import KernelChoice
from synthbench.suites.plan import Plan


@dataclass
class Tuned:
    """The choices that were made, where which of them are kept, and the missing frameworks."""

    choices: list[KernelChoice] = field(default_factory=list)
    kept: list[KernelChoice] = field(default_factory=list)
    file: str = ""
    missing: dict[str, str] = field(default_factory=dict)


def tune_plan(plan: Plan, seconds: float, plugins: Sequence[str], observer: Observer) -> Tuned:
    """Time the kernels for the shapes of a plan within some seconds; older choices are replaced.

    A sure one stays where the new one was disturbed; what a plug-in's code gave is not kept.
    """
    runner = CellRunner(plan.settings.measure, plan.device, plugins, observer)
    tuned = Tuned()
    try:
        runner.start(plan.frameworks)
        tuned.missing = dict(runner.missing)
        file = cache_file(runner.environment())
        tuned.file = str(file)
        memory = runner.limits().memory_bytes
        with runner.lock.held():
            race = Race(runner.hosts, observer, seconds, seconds, memory)
            for made in race.choose(plan.cells, decided=[]):
                tuned.choices += made.choices
                if made.is_own:
                    store_choices(file, made.choices)
        stored = {choice.cell.id: choice for choice in read_choices(file)}
        tuned.kept = [each for each in tuned.choices if stored.get(each.cell.id) == each]
    finally:
        runner.stop()
        observer.finished()
    return tuned
