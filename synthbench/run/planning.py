"""The plan of a suite, its cells checked by their tasks; with plug-ins, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from synthbench.devices import device_kind, device_names
from synthbench.errors import NotationError, SynthbenchError, UnknownNameError
from synthbench.run.host_client import NO_FRAMEWORK, Host, HostDiedError, error_of
from synthbench.run.job import Job, Limits
from synthbench.run.spread import on_any_of, spread_over_devices
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.selection import with_data, with_machines
from synthbench.suites.suite import Suite
from synthbench.tasks.catalog import check_task, find, with_options

PLAN_SECONDS = 120.0  # to import the plug-ins and check every cell


def plan_suite(
    suite: Suite,
    device: str,
    frameworks: Iterable[str] | None = None,
    variants: Iterable[str] | None = None,
    seq_lens: Iterable[int] | None = None,
    force: bool = False,
    data: str | None = None,
    machines: int | None = None,
    modes: Iterable[str] | None = None,
    batches: Iterable[int] | None = None,
    begin: Callable[[Cell], None] = lambda cell: None,
) -> Plan:
    """`make_plan` with the checks of the tasks, on one device or a list of several.

    `data` replaces the data source of the tasks that have one: a source's name, or a file's path.
    `machines` replaces `measure.machines`; the rest is as in `make_plan`.
    Raises also for an unknown task or option.
    """
    devices = device_names(device)
    _require_tasks(suite, devices[0])
    if data is not None:
        suite = with_data(suite, devices[0], _tasks_with_data(suite, devices[0]), data)
    if machines is not None:
        suite = with_machines(suite, devices[0], machines)
    _require_options(suite, devices[0], is_replaced=data is not None)
    plan = make_plan(
        suite, devices[0], frameworks, variants, seq_lens, force, check_task, begin,
        modes=modes, batches=batches,
    )  # fmt: skip
    if len(devices) > 1:
        spread = plan.settings.measure.machines > 1
        plan = (on_any_of if spread else spread_over_devices)(plan, devices)
    return plan


def _require_tasks(suite: Suite, device: str) -> None:
    """Raise NotationError, with file and key, for a task that is not known."""
    settings = suite.settings(device_kind(device).name)
    places = {f"axes.task.{position}": name for position, name in enumerate(settings.axes.task)}
    for place, name in (places | {f"tasks.{name}": name for name in settings.tasks}).items():
        try:
            find(name)
        except UnknownNameError as error:
            raise NotationError(f"{suite.source}: {place}: {error}") from error


def _require_options(suite: Suite, device: str, is_replaced: bool) -> None:
    """Raise NotationError, with file and key, for options that a task does not have.

    `is_replaced`: whether a data source is not from the file.
    """
    settings = suite.settings(device_kind(device).name)
    for name in {**dict.fromkeys(settings.axes.task), **settings.tasks}:
        options = settings.tasks.get(name, {})
        try:
            with_options(find(name), options)
        except SynthbenchError as error:
            if is_replaced and "data" in options:
                raise
            raise NotationError(f"{suite.source}: tasks.{name}: {error}") from error


def _tasks_with_data(suite: Suite, device: str) -> list[str]:
    """The tasks of a suite that take a data source; raises NotationError if none does."""
    names = suite.settings(device_kind(device).name).axes.task
    found = [name for name in names if any(f.name == "data" for f in fields(find(name)))]
    if not found:
        raise NotationError(
            f"suite {suite.name} has no task that takes --data (its tasks: {', '.join(names)})"
        )
    return found


def plan_in_child(
    suite: Suite,
    device: str,
    frameworks: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    seq_lens: Sequence[int] | None = None,
    force: bool = False,
    data: str | None = None,
    machines: int | None = None,
    modes: Sequence[str] | None = None,
    batches: Sequence[int] | None = None,
    *,
    plugins: Sequence[str],
) -> Plan:
    """`plan_suite` in a child process that imports the plug-ins, with limits of time and memory.

    Only data comes back, so no code of a plug-in runs in this process. Raises what `plan_suite`
    does, and SynthbenchError where the plug-ins end the child or do not let it finish.
    """
    content: dict[str, Any] = {
        "plugins": list(plugins),
        "suite": suite.model_dump(mode="json", exclude_unset=True),
        "selection": {
            "device": device,
            "frameworks": frameworks,
            "variants": variants,
            "seq_lens": seq_lens,
            "force": force,
            "data": data,
            "machines": machines,
            "modes": modes,
            "batches": batches,
        },
    }
    failed = f"suite {suite.name} cannot be planned with its plug-ins: "
    with Host(NO_FRAMEWORK) as host:
        try:
            reply = host.run(Job("plan", content, Limits(PLAN_SECONDS)))
        except HostDiedError as error:
            raise SynthbenchError(f"{failed}{error}") from error
    if reply.outcome != "ok":
        raise error_of(reply, f"{failed}{reply.outcome}: ")
    try:
        return Plan.load(reply.result)
    except (KeyError, TypeError, ValueError) as error:  # a plug-in may have answered itself
        raise SynthbenchError(f"{failed}its process did not answer with a plan") from error
