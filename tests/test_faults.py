"""Faults that must not end a run, hang it, or damage its records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import synthbench
from synthbench.measure.environment import available_memory
from synthbench.record import latest
from synthbench.report.tables.catalog import make_tables
from synthbench.run.extensions import load_plugin
from synthbench.run.job import Reply
from synthbench.run.runner import run_plan
from synthbench.run.supervise import supervise
from synthbench.store import RECORDS, read_run
from tests.plugin_isolation import isolated_plugins
from tests.plugins.faulty import Faulty
from tests.test_runner import PLUGIN, ROOT, plan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """The faulty mixers, in the catalogue for this module only."""
    with isolated_plugins():
        load_plugin(PLUGIN)
        yield


@pytest.mark.long
def test_texts_that_are_not_unicode_are_stored_as_escapes(tmp_path: Path) -> None:
    run_plan(plan("surrogate", "R"), tmp_path / "run", plugins=[PLUGIN])
    run_plan(plan("surrogate", "R"), tmp_path / "run", plugins=[PLUGIN], resume=True)
    run = read_run(tmp_path / "run")
    reasons = {record.cell.variant: record.reason for record in run.records}
    assert len(run.records) == 2
    assert r"ValueError: no such file: caf\udce9" in reasons["surrogate"]
    assert reasons["R"] == ""
    assert make_tables(run)


def test_a_reply_with_invalid_unicode_can_be_written() -> None:
    line = Reply("crashed", "caf\udce9", {"warnings": ["\ud800"]}).encode()
    reply = Reply.decode(line)
    assert reply.reason == r"caf\udce9"
    assert json.dumps(reply.result).encode() and reply.result == {"warnings": [r"\ud800"]}


@pytest.mark.long_but("-5*")
@pytest.mark.parametrize(
    ("count", "outcome", "reason"),
    [
        (-5, "crashed", "Counter.flops() returns -5; return an integer of at least 0"),
        (2**63, "quarantined", "not possible"),
    ],
)
def test_a_count_that_is_not_possible_ends_its_cell_only(
    tmp_path: Path, count: int, outcome: str, reason: str
) -> None:
    run_plan(plan(f"counter(count={count})", "R"), tmp_path / "run", plugins=[PLUGIN])
    run = read_run(tmp_path / "run")
    outcomes = {record.cell.variant: record for record in run.records}
    assert outcomes["R"].outcome == "ok"
    refused = next(r for name, r in outcomes.items() if name.startswith("counter"))
    assert refused.outcome == outcome
    assert reason in refused.reason
    assert make_tables(run)


def test_a_time_out_of_years_is_waited_for_in_parts() -> None:
    """poll() takes at most 2^31 milliseconds, which is 24 days."""
    result, output, owner = os.pipe(), os.pipe(), os.pipe()
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    pid = os.posix_spawn(sys.executable, command, os.environ)
    begin = time.monotonic()
    ended = supervise(pid, result[0], output[0], owner[0], timeout_seconds=1e9)
    assert os.waitstatus_to_exitcode(ended.status) == 3
    assert not ended.timed_out
    assert time.monotonic() - begin < 60
    for fd in (*result, *output, *owner):
        os.close(fd)


LIMIT = """
import resource
from synthbench.measure.memory_limit import limit_memory, raise_memory_limit
if {hard} is not None:
    resource.setrlimit(resource.RLIMIT_AS, ({hard}, {hard}))
allowed = limit_memory({wanted}, 2)
raise_memory_limit(2**80)
print(allowed, *resource.getrlimit(resource.RLIMIT_AS))
"""


def limited(wanted: int | None, hard: int | None) -> list[int]:
    """Bytes allowed, soft limit, hard limit, in a process with this hard limit."""
    done = subprocess.run(
        [sys.executable, "-c", LIMIT.format(wanted=wanted, hard=hard)], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("wanted", [int(1e300), 10**19, 0, 1])
def test_any_memory_limit_can_be_set(wanted: int) -> None:
    allowed, soft, _ = limited(wanted, None)
    assert 0 <= allowed <= wanted
    assert soft <= 2**62


def test_a_hard_limit_is_respected() -> None:
    hard = 6 * 10**9
    allowed, soft, after = limited(10**12, hard)
    assert soft == after == hard
    assert 0 < allowed < hard
    allowed, soft, _ = limited(10**6, hard)
    assert (allowed, soft <= hard) == (10**6, True)


def test_the_memory_limit_of_a_container_bounds_what_is_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("synthbench.measure.environment.container_memory_left", lambda: 12345)
    assert available_memory() == 12345


def test_a_reply_that_the_harness_did_not_write_does_not_count(tmp_path: Path) -> None:
    run_plan(plan("forger", "R"), tmp_path / "run", plugins=[PLUGIN])
    records = {record.cell.variant: record for record in read_run(tmp_path / "run").records}
    assert records["forger"].outcome == "crashed"
    assert "exit code 0" in records["forger"].reason
    assert records["R"].outcome == "ok"


@pytest.mark.long
def test_a_host_that_is_stopped_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synthbench.run.host_client.GRACE_SECONDS", 0.5)
    run_plan(plan("stopper", "R", timeout=2), tmp_path / "run", plugins=[PLUGIN])
    records = {record.cell.variant: record for record in read_run(tmp_path / "run").records}
    assert records["stopper"].outcome == "crashed"
    assert "host process was killed" in records["stopper"].reason
    assert records["R"].outcome == "ok"


@dataclass(frozen=True)
class Slow(Faulty):
    """Takes longer than allowed, but only until the file `quick` exists."""

    name: ClassVar[str] = "slow"

    def reference(self, p: Any, x: Any, sizes: Any, **_: Any) -> Any:
        return x * 1

    def deed(self) -> None:
        while not Path("quick").exists():
            time.sleep(0.05)


@pytest.mark.long
def test_a_parity_check_out_of_time_concerns_one_attempt_and_can_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    synthbench.register(Slow)
    planned = plan("slow", "R", timeout=2)
    this = ["tests.plugins.faulty", "tests.test_faults"]
    run_plan(planned, "run", plugins=this)
    first = {record.cell.variant: record for record in read_run(Path("run")).records}
    assert first["slow"].outcome == "unchecked"
    assert first["slow"].reason.startswith("parity could not be checked: timeout: ended after 2 s")
    Path("quick").touch()
    run_plan(planned, "run", plugins=this, resume=True)
    assert len(read_run(Path("run")).records) == 2  # without --retry nothing is measured again
    run_plan(planned, "run", plugins=this, resume=True, retry=["unchecked"])
    records = read_run(Path("run")).records
    assert [(r.cell.variant, r.attempt, r.outcome) for r in records[2:]] == [("slow", 1, "ok")]
    assert {r.outcome for r in latest(records)} == {"ok"}


@pytest.mark.long
def test_disturbed_cells_can_be_measured_again(tmp_path: Path) -> None:
    run_plan(plan("R", "V"), tmp_path / "run", plugins=[PLUGIN])
    path = tmp_path / "run" / RECORDS
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[0]["measurements"]["warnings"] = ["busy"]
    records[1]["measurements"]["warnings"] = []
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    run_plan(plan("R", "V"), tmp_path / "run", plugins=[PLUGIN], resume=True, retry=["disturbed"])
    again = read_run(tmp_path / "run").records
    assert [(r.id, r.attempt) for r in again[2:]] == [(records[0]["id"], 1)]


SHADOWS = ("random", "torch", "numpy", "json", "yaml")


@pytest.mark.long
def test_files_in_the_working_directory_are_not_executed(tmp_path: Path) -> None:
    """Only the plug-in that is named is imported from it."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py was executed')\n")
    plugin = (ROOT / "tests" / "plugins" / "known.py").read_text()
    (tmp_path / "my_plugin.py").write_text(plugin)
    (tmp_path / "mine.yaml").write_text(
        "axes: {variant: [V, holder], framework: [torch], mode: [forward], seq_len: [8]}\n"
        "model: {d_model: 8, heads: 2}\n"
        "measure: {min_samples: 1, min_seconds: 0.001, max_seconds: 0.1, ceiling: false}\n"
    )
    script = Path(sys.executable).with_name("synthbench")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [script, "run", "--suite", "mine.yaml", "--device", "cpu", "--out", "out", "--plugin",
         "my_plugin"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {record.outcome for record in read_run(tmp_path / "out").records} == {"ok"}
