"""The parity checks of all frameworks at the same time, before the first cell is timed.

A check is not timed, and most of it keeps one core busy: in JAX with compiling, in PyTorch with the
NumPy reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

from synthbench.errors import SynthbenchError
from synthbench.kernel import Kernel
from synthbench.record import Parity
from synthbench.run.checks import Checks
from synthbench.run.host_client import Host, HostDiedError
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.progress import Observer, Silent
from synthbench.suites.cell import Cell

TELL_SECONDS = 10.0  # between two reports of how far the checks are


class _Heard(Silent):
    """Keeps what is said of checks, to be passed on from the thread that measures."""

    def __init__(self) -> None:
        self.said: list[tuple[Cell, Parity | None, str]] = []

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        self.said.append((cell, parity, reason))


def check_together(
    checks: Checks,
    hosts: Mapping[str, Host],
    cells: Sequence[tuple[Cell, Kernel | None]],
    limits: Limits,
    observer: Observer,
) -> None:
    """Add to `checks` what passes of these cells, each with the kernel that was chosen for it.

    `hosts`: for nothing else, and stopped afterwards; their threads must not spin, or each takes
    the cores from the other. Whatever else comes of a check may be due to the other framework,
    which takes memory and time: it is made again, alone, when its cell is about to be measured.
    """
    parts: dict[str, list[tuple[Cell, Kernel | None]]] = {}
    for cell, kernel in cells:
        if cell.framework in hosts:
            parts.setdefault(cell.framework, []).append((cell, kernel))

    def ask(framework: str, job: Job) -> Reply:
        return hosts[framework].run(job)

    total, done = sum(map(len, parts.values())), list[Cell]()
    heard = {framework: _Heard() for framework in parts}
    found = {framework: Checks(heard[framework], ask) for framework in parts}

    def check_all(framework: str) -> None:
        with suppress(HostDiedError, SynthbenchError):  # the rest is checked alone
            for cell, kernel in parts[framework]:
                found[framework].check(cell, kernel, limits)
                done.append(cell)

    with ThreadPoolExecutor(len(parts), "checks") as threads:
        running = [threads.submit(check_all, framework) for framework in parts]
        try:
            tell = True
            while tell:
                observer.stage(f"checking parity before anything is timed: {len(done)} of {total}")
                tell = bool(wait(running, TELL_SECONDS).not_done)
        finally:
            for framework in parts:  # one that still works was asked to stop
                hosts[framework].interrupt()
    for each in running:
        each.result()
    for framework, own in found.items():
        hosts[framework].stop()
        checks.take_passed(own)
        for cell, parity, _ in heard[framework].said:
            if parity is not None and _has_passed(parity):
                observer.parity_checked(cell, parity, "")


def _has_passed(parity: Parity) -> bool:
    """Whether a check was made and passed: on a small input, or at the cell's own length."""
    own_length = parity.own_length
    return parity.passed and (own_length is None or own_length.passed is True)
