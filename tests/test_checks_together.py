"""The parity checks of two frameworks at the same time, and what becomes of those that fail."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from synthbench.kernel import Kernel
from synthbench.record import OwnLength, Parity
from synthbench.run.checks import Checks
from synthbench.run.checks_together import check_together
from synthbench.run.host_client import NO_FRAMEWORK, Host, HostDiedError
from synthbench.run.job import Job, Limits, Reply
from synthbench.run.progress import Silent
from synthbench.run.runner import run_plan
from synthbench.store import read_records
from synthbench.suites.cell import Cell
from synthbench.suites.plan import Plan, make_plan
from synthbench.suites.suite import parse_suite

LIMITS = Limits(60.0)
LONGEST = 60.0  # seconds that nothing here takes
FINISHED = {"other_framework_loaded": False}


def plan(lengths: str = "8, 16", rounds: int = 1) -> Plan:
    """V in both frameworks, forward."""
    text = f"""
    axes: {{variant: [V], framework: [torch, jax], mode: [forward], seq_len: [{lengths}]}}
    model: {{kind: mixer, d_model: 8, heads: 2}}
    measure: {{rounds: {rounds}, min_samples: 3, min_seconds: 0.001, max_seconds: 4, aa: false,
               ceiling: false, timeout_seconds: 300, threads: 1}}
    """
    return make_plan(parse_suite(text, name="mine", source="mine.yaml"), "cpu")


CELLS: list[tuple[Cell, Kernel | None]] = [(cell, None) for cell in plan().cells]


def passed(job: Job) -> Reply:
    """What a host replies to a check that passes."""
    if job.kind == "parity":
        parity = Parity(against="numpy", forward=0.0, gradient=0.0, tolerance=1e-5, passed=True)
        return Reply("ok", result=parity.model_dump(mode="json"), facts=FINISHED)
    found = OwnLength(seq_len=job.content["cell"]["seq_len"], against="numpy", passed=True)
    return Reply("ok", result=found.model_dump(mode="json"), facts=FINISHED)


class FakeHost:
    """Replies as it is told, and counts what it is asked."""

    def __init__(self, reply: Callable[[Job], Reply] = passed) -> None:
        self.reply = reply
        self.asked = Counter[str]()
        self.interrupted = threading.Event()

    def run(self, job: Job) -> Reply:
        self.asked[job.kind] += 1
        return self.reply(job)

    def interrupt(self) -> None:
        self.interrupted.set()

    def stop(self) -> None: ...


class Heard(Silent):
    """Keeps what is said of parity, and when cells begin."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.checked: list[tuple[Cell, Parity | None, str]] = []

    def parity_checked(self, cell: Cell, parity: Parity | None, reason: str) -> None:
        self.events.append("parity")
        self.checked.append((cell, parity, reason))

    def cell_started(self, cell: Cell, round_number: int) -> None:
        self.events.append("cell")


def together(torch: FakeHost, jax: FakeHost, observer: Silent | None = None) -> Checks:
    """The checks of all cells with such hosts."""
    observer = observer or Heard()

    def nobody(framework: str, job: Job) -> Reply:
        raise AssertionError("asked beside the hosts")

    checks = Checks(observer, nobody)
    hosts = cast(dict[str, Host], {"torch": torch, "jax": jax})
    check_together(checks, hosts, CELLS, LIMITS, observer)
    return checks


def test_the_frameworks_check_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=LONGEST)

    def reply(job: Job) -> Reply:
        if job.kind == "parity":
            both.wait()  # nobody gets past it alone
        return passed(job)

    checks = together(FakeHost(reply), FakeHost(reply))
    assert all(checks.is_known(*each) for each in CELLS)


def test_each_check_is_made_and_reported_once_and_then_known() -> None:
    torch, jax, heard = FakeHost(), FakeHost(), Heard()
    checks = together(torch, jax, heard)
    for host in (torch, jax):
        assert host.asked == {"parity": 1, "own_length": 2}
    for cell, kernel in CELLS:
        found = checks.check(cell, kernel, LIMITS)  # asks nobody
        assert isinstance(found, Parity)
        assert found.own_length is not None
        assert found.own_length.seq_len == cell.seq_len
    assert len(heard.checked) == 6
    assert not any(reason for *_, reason in heard.checked)


@pytest.mark.parametrize("outcome", ["oom", "timeout", "crashed"])
@pytest.mark.parametrize("kind", ["parity", "own_length"])
def test_a_check_that_was_not_made_is_made_again_alone(kind: str, outcome: Any) -> None:
    def reply(job: Job) -> Reply:
        return Reply(outcome, "no room beside the other") if job.kind == kind else passed(job)

    heard = Heard()
    checks = together(FakeHost(reply), FakeHost(), heard)
    known = {cell.framework for cell, kernel in CELLS if checks.is_known(cell, kernel)}
    assert known == {"jax"}
    assert not any(reason for *_, reason in heard.checked)
    alone = FakeHost()
    checks.ask = lambda framework, job: alone.run(job)
    for cell, kernel in CELLS:
        found = checks.check(cell, kernel, LIMITS)
        assert isinstance(found, Parity)
        assert found.own_length is not None
        assert found.own_length.passed
    assert alone.asked[kind] == {"parity": 1, "own_length": 2}[kind]


@pytest.mark.parametrize("kind", ["parity", "own_length"])
def test_a_check_that_failed_is_made_again_alone_and_fails_the_cell(kind: str) -> None:
    def reply(job: Job) -> Reply:
        found = passed(job)
        return found if job.kind != kind else Reply(
            "ok", result=found.result | {"passed": False}, facts=FINISHED
        )  # fmt: skip

    heard = Heard()
    checks = together(FakeHost(reply), FakeHost(), heard)
    assert {cell.framework for cell, *_ in heard.checked if kind == "parity"} <= {"jax"}
    checks.ask = lambda framework, job: reply(job)
    for cell, kernel in CELLS:
        found = checks.check(cell, kernel, LIMITS)
        if cell.framework == "torch":
            assert isinstance(found, Reply)
            assert found.outcome == "quarantined"
            assert "parity failed" in found.reason
        else:
            assert isinstance(found, Parity)


def test_a_host_that_dies_ends_only_its_own_checks() -> None:
    def die(job: Job) -> Reply:
        raise HostDiedError("its host process was killed by signal 9")

    checks = together(FakeHost(die), FakeHost())
    known = {cell.framework for cell, kernel in CELLS if checks.is_known(cell, kernel)}
    assert known == {"jax"}


def test_who_stops_the_run_does_not_wait_for_the_checks() -> None:
    class Stops(Silent):
        def stage(self, text: str) -> None:
            raise KeyboardInterrupt

    def until_interrupted(host: FakeHost) -> Callable[[Job], Reply]:
        def reply(job: Job) -> Reply:
            assert host.interrupted.wait(LONGEST)
            raise HostDiedError("interrupted")

        return reply

    hosts = FakeHost(), FakeHost()
    for host in hosts:
        host.reply = until_interrupted(host)
    with pytest.raises(KeyboardInterrupt):
        together(*hosts, Stops())
    assert all(host.interrupted.is_set() for host in hosts)


@pytest.mark.parametrize(("spins", "policy"), [(True, None), (False, "PASSIVE")])
def test_only_hosts_that_check_wait_without_spinning(
    spins: bool, policy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with Host(NO_FRAMEWORK, spins=spins) as host:
        assert host.call("os:getenv", {"key": "OMP_WAIT_POLICY"}) == policy


@pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")
def test_a_run_checks_everything_before_it_times_anything(tmp_path: Path) -> None:
    heard = Heard()
    summary = run_plan(plan(rounds=2), tmp_path / "run", observer=heard)
    assert summary.outcomes == {"ok": 8}
    assert heard.events == ["parity"] * 6 + ["cell"] * 8
    assert not psutil.Process().children(recursive=True)
    for record in read_records(tmp_path / "run"):
        parity = record.measurements.parity
        assert parity is not None
        assert parity.own_length is not None
        assert parity.own_length.passed
        assert parity.own_length.seq_len == record.cell.seq_len
