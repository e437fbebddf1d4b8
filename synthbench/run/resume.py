"""Continue a run: what it has is kept, and what has changed since is reported."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from synthbench.errors import ResultsError, quote
from synthbench.packed import PACKED
from synthbench.record import Record, flattened
from synthbench.run.plugin_code import changed_plugins
from synthbench.run.progress import Observer
from synthbench.run.same_code import commit_of
from synthbench.run_files import locked
from synthbench.run_info import Machine, merged_machines
from synthbench.store import (
    INFO,
    RECORDS,
    has_begun,
    read_info,
    read_run,
    set_damage_aside,
    write_info,
)
from synthbench.suites.plan import Plan
from synthbench.suites.settings import Settings

COMPARED = ("cpu", "cores", "versions", "frameworks")  # of an environment
CODE = "code_sha256"


def require_own(plan: Plan, run_dir: Path, allow_changed: bool = False) -> None:
    """Raise ResultsError if a folder holds a run of another suite, or a damaged one.

    Raises it also where the run began on another device, or with other settings, unless
    `allow_changed`.
    """
    if not has_begun(run_dir):
        return
    info = read_info(run_dir)
    suite = info.suite
    if suite != plan.suite:
        raise ResultsError(
            f"{run_dir} is a run of suite {suite}, not of {plan.suite}; give the --out of a run of "
            f"{plan.suite}, or leave --resume out to start a new one"
        )
    if allow_changed:
        return
    if info.device != plan.device:
        raise ResultsError(
            f"{run_dir} began on {info.device}, and this call measures on {plan.device}: its "
            f"records would mix both; write --device {info.device}, start a new run without "
            "--resume, or add --allow-changed"
        )
    changed = changed_settings(info.settings, plan.settings)
    if changed:
        found = "; ".join(
            f"{name} was {quote(before)} and is {quote(after)}"
            for name, (before, after) in changed.items()
        )
        raise ResultsError(
            f"{run_dir} began with other settings: {found}. Its records would mix both: go back to "
            "the suite and the selection that it began with, start a new run without --resume, or "
            "add --allow-changed"
        )


def changed_settings(before: dict[str, Any], after: Settings) -> dict[str, tuple[Any, Any]]:
    """The settings in which a run would mix two kinds of records: dotted key -> before, after.

    `measure.force` is not among them: it only adds the cells that were left out.
    """
    with contextlib.suppress(ValidationError):  # of another version; then compared as it stands
        # With the defaults of settings that are newer than the run.
        before = Settings.model_validate_json(json.dumps(before)).model_dump(mode="json")
    old, new = flattened(before), flattened(after.model_dump(mode="json"))
    return {
        name: (old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name) and name != "measure.force"
    }


def continue_run(
    plan: Plan, run_dir: Path, observer: Observer, options: Sequence[str] | None = None
) -> list[Record] | None:
    """The records a run has already; None if there is no run yet.

    Damaged lines are moved aside. Reported to the observer: damage, a changed suite or device, and
    records that belong to no cell of the plan. Raises ResultsError where the run cannot be read.
    """
    records_path = run_dir / RECORDS
    begun = records_path.exists() and records_path.stat().st_size > 0
    begun = begun or (run_dir / PACKED).exists()
    if not (run_dir / INFO).exists() and not begun:
        return None
    with locked(run_dir):
        run = read_run(run_dir)
        for damage in run.damaged:
            done = "moved aside" if damage.file == RECORDS else "left there"
            observer.note(f"{run_dir}: {damage}; {done}, everything else is kept")
        run = set_damage_aside(run)
        _report_unknown_records(plan, run.records, observer)
        settings = plan.settings.model_dump(mode="json")
        session: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds")}
        changed = list(changed_settings(run.info.settings, plan.settings))
        if plan.device != run.info.device:
            observer.note(
                f"this run began on {run.info.device}, and continues on {plan.device}; the records "
                "that it has are kept"
            )
            changed.insert(0, "device")
            session["device_before"] = run.info.device
        if settings != run.info.settings:
            observer.note(
                f"{plan.source}, or the selection from it, has changed since this run began; "
                "only what is missing runs"
            )
            session["settings_before"] = run.info.settings
        if changed:
            session["changed"] = changed
        changes = {
            "settings": settings,
            "device": plan.device,
            "options": run.info.options if options is None else list(options),
            "finished": None,
            "resumed": [*run.info.resumed, session],
        }
        write_info(run_dir, run.info.model_copy(update=changes))
    return list(run.records)


def add_machine(run_dir: Path, machine: Machine, observer: Observer) -> None:
    """Store a machine in run.json; what has changed since it measured before is reported."""
    info = read_info(run_dir)
    machines = {known.id: known for known in info.machines}
    resumed = list(info.resumed)
    if known := machines.get(machine.id):
        changed = what_changed(known.environment, machine.environment)
        told = resumed[-1].get("environment") if resumed else None
        if changed and (told is None or what_changed(told, machine.environment)):
            for text in changed:
                observer.note(text)
        if changed and resumed:
            resumed[-1] = resumed[-1] | {"environment": machine.environment}
        (machine,) = merged_machines([known, machine])
    elif machines and resumed:
        observer.note(
            f"machine {machine.id} measures the rest of this run; {', '.join(machines)} began it"
        )
    machines[machine.id] = machine
    changes = {"machines": list(machines.values()), "resumed": resumed}
    write_info(run_dir, info.model_copy(update=changes))


def what_changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A sentence for each change of an environment that numbers depend on."""
    found = [
        f"{name} differs from when this run began: {was} -> {now}"
        for name, (was, now) in differences(before, after).items()
    ]
    if before.get(CODE) is not None and before[CODE] != after.get(CODE):
        found.append(
            f"the code of synthbench has changed since this run began ({commit_of(before)} -> "
            f"{commit_of(after)}), and its records are of the code before: start a new run to "
            "measure all with one code"
        )
    if plugins := changed_plugins(before, after):
        found.append(
            f"the code of {', '.join(plugins)} has changed since this run began, and its records "
            "are of the code before: start a new run to measure all with one code"
        )
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What of an environment numbers depend on and has changed: name -> before, after."""
    return {
        name: (before.get(name), after.get(name))
        for name in COMPARED
        if before.get(name) != after.get(name)
    }


def _report_unknown_records(plan: Plan, records: Sequence[Record], observer: Observer) -> None:
    own = {cell.id for cell in plan.cells} | {skip.cell.id for skip in plan.skipped}
    unknown = sum(record.id not in own for record in records)
    if unknown:
        observer.note(
            f"{unknown} records belong to no cell of this plan (the suite, the device or the "
            "selection has changed); they are kept"
        )
