"""Choose the kernels for a plan anew; runs and modules on this machine use them from then on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from synthbench.devices import is_host
from synthbench.kernel import Purpose
from synthbench.measure.kernel_cache import cache_file, read_choices, store_choices
from synthbench.run.cell_runner import CellRunner
from synthbench.run.kernel_choices import Race
from synthbench.run.places import places_of
from synthbench.run.progress import Observer
from synthbench.run_info import KernelChoice
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan


@dataclass
class Tuned:
    """The choices that were made, where which of them are kept, and the missing frameworks."""

    choices: dict[Purpose, list[KernelChoice]] = field(default_factory=dict)
    kept: list[KernelChoice] = field(default_factory=list)
    files: list[str] = field(default_factory=list)  # one per device and purpose
    missing: dict[str, str] = field(default_factory=dict)


def tune_plan(
    plan: Plan,
    seconds: float,
    plugins: Sequence[str],
    observer: Observer,
    slots: int | None = None,
    purposes: Sequence[Purpose] = tuple(Purpose),
) -> Tuned:
    """Time the kernels for the shapes of a plan within some seconds; older choices are replaced.

    A sure one stays where the new one was disturbed; what a plug-in's code gave is not kept.
    Several devices, or `slots` of the processor, have their turn one after the other, each with an
    equal part of the time, and with the cores that it has in a run: choices are kept for these.

    `purposes`: those for runs are timed in processes that keep freed memory, those for modules
    outside of runs where it is returned to the system, each in an equal part of the time. That
    concerns the memory of a CPU: on other devices modules take the choices for runs.
    """
    places, tuned = places_of(plan, slots), Tuned()
    try:
        for place in places:
            own = [cell for cell in plan.cells if cell.device == place.device]
            # Where rounds are spread over the devices, each measures every cell.
            cells = own or [cell.changed(device=place.device) for cell in plan.cells]
            with place.entered():
                runner = CellRunner(plan.settings.measure, place.device, plugins, observer)
                try:
                    runner.start(plan.frameworks)
                    environment = runner.environment()
                    if len(places) > 1 or slots is not None:  # as in a run
                        environment["place"] = place.name
                    baseline = plan.settings.baseline
                    end = time.monotonic() + seconds / len(places)
                    wanted = purposes if is_host(place.device) else [Purpose.RUNS]
                    for number, purpose in enumerate(wanted):
                        part = (end - time.monotonic()) / (len(wanted) - number)
                        _tune(runner, cells, purpose, part, environment, baseline, tuned)
                finally:
                    runner.stop()
    finally:
        observer.finished()
    return tuned


def _tune(
    runner: CellRunner,
    cells: Sequence[Cell],
    purpose: Purpose,
    seconds: float,
    environment: dict[str, Any],
    baseline: str,
    tuned: Tuned,
) -> None:
    """Add the choices for the cells of one device to those that were made."""
    tuned.missing |= runner.missing
    file = cache_file(environment, purpose)
    tuned.files.append(str(file))
    found: list[KernelChoice] = []
    with runner.lock.held():
        memory = runner.limits().memory_bytes
        race = Race(
            runner.hosts, runner.observer, seconds, seconds, memory,
            baseline=baseline, keep_memory=purpose is Purpose.RUNS,
        )  # fmt: skip
        for made in race.choose(cells, decided=[]):
            found += made.choices
            if made.is_own:
                store_choices(file, made.choices)
    stored = {choice.cell.id: choice for choice in read_choices(file)}
    tuned.choices.setdefault(purpose, []).extend(found)
    tuned.kept += [choice for choice in found if stored.get(choice.cell.id) == choice]
