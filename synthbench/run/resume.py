"""Go on with a run: what is there is kept, and what is odd about it is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from synthbench.errors import ResultsError
from synthbench.record import Record
from synthbench.run.progress import Observer
from synthbench.store import (
    INFO,
    RECORDS,
    has_begun,
    locked,
    read_info,
    read_run,
    set_damage_aside,
    write_info,
)
from synthbench.suites.plan import Plan


def require_own(plan: Plan, run_dir: Path) -> None:
    """Raise ResultsError where a folder holds a run of another suite, or one that is damaged."""
    if not has_begun(run_dir):
        return
    suite = read_info(run_dir).suite
    if suite != plan.suite:
        raise ResultsError(
            f"{run_dir} is a run of suite {suite}, not of {plan.suite}; give the --out of a run of "
            f"{plan.suite}, or leave --resume out to begin one"
        )


def continue_run(
    plan: Plan, run_dir: Path, environment: dict[str, Any], observer: Observer
) -> list[Record] | None:
    """The records a run has already; None where there is no run yet.

    Damaged lines are moved aside. Told to the observer: damage, a changed suite or environment,
    and records that belong to no cell of the plan. Raises ResultsError where it cannot be read.
    """
    records_path = run_dir / RECORDS
    begun = records_path.exists() and records_path.stat().st_size > 0
    if not (run_dir / INFO).exists() and not begun:
        return None
    with locked(run_dir):
        run = read_run(run_dir)
        for damage in run.damaged:
            observer.note(f"{run_dir}: {damage}; moved aside, everything else is kept")
        run = set_damage_aside(run)
        _tell_strangers(plan, run.records, observer)
        settings = plan.settings.model_dump(mode="json")
        session: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": environment,
        }
        if settings != run.info.settings:
            observer.note(
                f"{plan.source}, or the selection from it, has changed since this run began; "
                "only what is missing runs"
            )
            session["settings_before"] = run.info.settings
        for name in ("cpu", "cores", "versions", "frameworks"):
            before, after = run.info.environment.get(name), environment.get(name)
            if before != after:
                observer.note(f"{name} differs from when this run began: {before} -> {after}")
        changes = {"settings": settings, "finished": None, "resumed": [*run.info.resumed, session]}
        write_info(run_dir, run.info.model_copy(update=changes))
    return run.records


def _tell_strangers(plan: Plan, records: list[Record], observer: Observer) -> None:
    own = {cell.id for cell in plan.cells} | {skip.cell.id for skip in plan.skipped}
    strangers = sum(record.id not in own for record in records)
    if strangers:
        observer.note(
            f"{strangers} records belong to no cell of this plan (the suite, the device or the "
            "selection has changed); they are kept"
        )
