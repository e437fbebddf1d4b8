"""The parity checks that the cells of a run share: each is made once, and serves every round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from synthbench.kernel import Kernel
from synthbench.measure.parity import parity_key
from synthbench.measure.parity_cache import ParityCache
from synthbench.record import Measurements, Parity
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.own_length import OwnLengthChecks
from synthbench.run.progress import Observer
from synthbench.suites.cell import Cell

Ask = Callable[[str, Job], Reply]  # runs a job in the host of a framework


class Checks:
    """What is known of the parity of cells; `ask` makes a check that is not known yet.

    `kept`: what passed in earlier runs; only for runs without plug-ins, whose code may change.
    """

    def __init__(self, observer: Observer, ask: Ask) -> None:
        self.ask = ask
        self.kept = ParityCache()
        self.parities: dict[str, Parity | Reply] = {}
        self.own_lengths = OwnLengthChecks()
        self.observer = observer

    def check(self, cell: Cell, kernel: Kernel | None, limits: Limits) -> Parity | Reply:
        """The parity of a cell with that at its own length: passed, or the reply to store.

        `kernel`: the one that was chosen for the cell.
        """
        parity = self.parity_of(cell, kernel, limits)
        if isinstance(parity, Reply):
            return parity
        return self.own_lengths.check(
            cell, kernel, parity, self.ask, limits, self.observer, self.kept
        )

    def parity_of(self, cell: Cell, kernel: Kernel | None, limits: Limits) -> Parity | Reply:
        """The check on a small input: passed, or the reply to store.

        A check that timed out or was killed concerns this attempt only: the next cell repeats it.
        """
        key = f"{parity_key(cell)}|{kernel}"
        if key in self.parities:
            return self.parities[key]
        found = self.kept.get(key)
        if isinstance(found, Parity):
            self.parities[key] = found
            self.observer.parity_checked(cell, found, "")
            return found
        content = {"cell": cell.model_dump(mode="json"), "kernel": kernel}
        reply = self.ask(cell.framework, Job("parity", content, limits))
        if reply.outcome != "unsupported" and not reply.finished:
            reason = f"parity could not be checked: {reply.outcome}: {reply.reason}"
            self.observer.parity_checked(cell, None, reason)
            return replace(reply, outcome="unchecked", reason=reason, result=None)
        made = None if reply.outcome != "ok" else Parity.model_validate(reply.result)
        answer = made if made is not None and made.passed else _failed(made, reply)
        self.parities[key] = answer
        reason = answer.reason if isinstance(answer, Reply) else ""
        self.observer.parity_checked(cell, made, reason)
        if made is not None:
            self.kept.keep(key, made)
        return answer


def _failed(parity: Parity | None, reply: Reply) -> Reply:
    """The reply of a cell whose parity check did not pass."""
    if parity is None:
        if reply.outcome in ("unsupported", "quarantined"):
            return reply
        reason = f"parity could not be checked: {reply.outcome}: {reply.reason}"
        return replace(reply, outcome="quarantined", reason=reason, result=None)
    gradient_tolerance = parity.gradient_tolerance or parity.tolerance
    reason = (
        f"parity failed against {parity.against}: forward error {parity.forward} (at most "
        f"{parity.tolerance}), gradient error {parity.gradient} (at most {gradient_tolerance})"
    )
    if parity.masks:
        reason = f"a mask does not hide what it should; {parity.masks}"
    measured = Measurements(parity=parity).model_dump(mode="json")
    return Reply("quarantined", reason, {"measurements": measured}, facts=reply.facts)
