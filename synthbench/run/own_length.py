"""The second parity check as a run makes it: once per code, size and length, for all rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from synthbench.kernel import Kernel
from synthbench.measure.own_length import not_checked
from synthbench.measure.parity_cache import ParityCache
from synthbench.record import Measurements, OwnLength, Parity
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.progress import Observer
from synthbench.suites.cell import Cell

TIMEOUT_SECONDS = 30.0  # a check that takes longer is left out

# What does not change what a check computes.
NOT_IN_KEY = {"batch", "seed", "label", "replica", "devices"}


class OwnLengthChecks:
    """The results that cells share; those of a run's first round serve all its rounds."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[OwnLength, dict[str, Any]]] = {}

    def check(
        self,
        cell: Cell,
        kernel: Kernel | None,
        parity: Parity,
        ask: Callable[[str, Job], Reply],
        limits: Limits,
        observer: Observer,
        kept: ParityCache,
    ) -> Parity | Reply:
        """The parity of a cell with this check in it; the reply to store if it failed.

        `kernel`: the one that was chosen for the cell. `kept`: what passed in earlier runs.

        A check that ends in any other way, such as out of memory, is not made: the cell itself
        will show what is wrong.
        """
        key = own_length_key(cell, kernel)
        new = key not in self.known
        before = kept.get(key)
        if new and isinstance(before, OwnLength):
            self.known[key] = before, {}
        elif new:
            self.known[key] = self._ask(cell, kernel, parity, ask, limits)
            kept.keep(key, self.known[key][0])
        found, facts = self.known[key]
        checked = parity.model_copy(update={"own_length": found})
        reason = ""
        if found.passed is False:
            checked = checked.model_copy(update={"passed": False})
            reason = failure(checked)
        if new:
            observer.parity_checked(cell, checked, reason)
        if not reason:
            return checked
        measured = Measurements(parity=checked).model_dump(mode="json")
        return Reply("quarantined", reason, {"measurements": measured}, facts=facts)

    def _ask(
        self,
        cell: Cell,
        kernel: Kernel | None,
        parity: Parity,
        ask: Callable[[str, Job], Reply],
        limits: Limits,
    ) -> tuple[OwnLength, dict[str, Any]]:
        if parity.forward is None:
            return not_checked(cell, "the mixer gives no reference"), {}
        limits = replace(limits, timeout_seconds=min(limits.timeout_seconds, TIMEOUT_SECONDS))
        content = {"cell": cell.model_dump(mode="json"), "kernel": kernel}
        reply = ask(cell.framework, Job("own_length", content, limits))
        if reply.outcome != "ok":
            return not_checked(cell, f"{reply.outcome}: {reply.reason}"), reply.facts
        return OwnLength.model_validate(reply.result), reply.facts


def own_length_key(cell: Cell, kernel: Kernel | None) -> str:
    """Cells with the same key share one check; these differ in the fields of NOT_IN_KEY only."""
    content = cell.model_dump(mode="json", exclude=NOT_IN_KEY)
    return f"{json.dumps(content, sort_keys=True)}|{kernel}"


def failure(parity: Parity) -> str:
    """Why a cell is quarantined whose check at its own length failed."""
    found = parity.own_length
    assert found is not None
    reason = f"parity failed at the cell's own length {found.seq_len}"
    if found.reason:
        return f"{reason}: {found.reason}"
    reason += f" against {found.against}: forward error {found.forward} (at most {parity.tolerance}"
    if found.gradient is None:
        return reason + ")"
    allowed = found.gradient_tolerance
    return f"{reason}), gradient error {found.gradient} (at most {allowed})"
