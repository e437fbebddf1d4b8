"""A small selection of the benchmark of faults, and its judge with planted faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.faults.case import Case, changed_files, fingerprint, write_files
from benchmarks.faults.conditions import CONDITIONS
from benchmarks.faults.finding import Report
from benchmarks.faults.forked import Ended
from benchmarks.faults.inputs import CASES
from benchmarks.faults.inputs.examples import RECORD, changed
from benchmarks.faults.judge import judge_end, judge_input, judge_records
from benchmarks.faults.kills.plan import COMBINATIONS, Kill, make_kills
from benchmarks.faults.kills.try_kills import try_kills
from benchmarks.faults.processes import MARKER, left_behind, marked
from benchmarks.faults.try_inputs import try_input, try_inputs
from tests.plugin_isolation import isolated_plugins

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the harness's limits are Linux's")

CASE = Case("kind", "name", ("tables",))
GOOD = Ended(2, "", "synthbench: a message\n")
TRACEBACK = "Traceback (most recent call last):\n  File x\nValueError\n"
LINES = [json.dumps(changed(RECORD, "round", number)).encode() for number in range(3)]
# One of each kind that needs neither a framework nor a font.
SELECTED = {
    "command line": "run --suite fifo.yaml --device cpu",
    "notation": "run 'FR(rank=\u0663)' (10)",
    "suite file": "a merge bomb",
    "suite value": "axes: {variant: [V], seq_len: [0]}",
    "run.json": "deep lists",
    "records.jsonl": "a count above 2^63 (export)",
    "export": "samples of zero (export --format pytest-benchmark)",
    "checkpoint": "damaged in its middle",
    "plug-in": "an exception that cannot be printed (list)",
    "environment": "COLUMNS -1 (run)",
}

# What the benchmark found to end in a traceback, a hang or a wrong result.
FOUND = (
    "suite file: 5000 hexadecimal digits",
    "suite file: an escaped surrogate in a variant",
    "suite file: a very long key",
    "suite value: devices: []",
    "suite value: tasks: {nonsense: {}}",
    "records.jsonl: a link to itself (export)",
    "records.jsonl: a link to /dev/zero (tables)",
    "checkpoint: empty",
    "checkpoint: a cell of deep lists",
    "checkpoint: a cell with heads 3",
    "checkpoint: texts as parameters",
    "plug-in: parameters that exit",
    "command line: tables --page out.md",
)


@pytest.fixture(autouse=True)
def isolated() -> Iterator[None]:
    """Kills load a plug-in into this process."""
    with isolated_plugins():
        yield


# --- the selection -------------------------------------------------------------------------------


def test_there_are_enough_inputs_kills_and_conditions() -> None:
    assert len({case.title for case in CASES}) == len(CASES) >= 300
    assert {case.kind for case in CASES} == set(SELECTED)
    kills = make_kills(64, seed=0)
    assert sum(kill.after_record for kill in kills) >= 30
    assert {(k.target, k.signals, k.after_record) for k in kills} == set(COMBINATIONS)
    assert len({condition.name for condition in CONDITIONS}) == len(CONDITIONS)


@pytest.mark.parametrize("kind", SELECTED)
def test_one_input_of_each_kind(kind: str, tmp_path: Path) -> None:
    (case,) = (c for c in CASES if c.kind == kind and c.name.startswith(SELECTED[kind]))
    problems, printed = try_input(case, tmp_path / "case")
    assert problems == [], printed
    assert not (tmp_path / "case").exists()


@pytest.mark.parametrize("title", FOUND)
def test_what_was_found_is_refused(title: str, tmp_path: Path) -> None:
    (case,) = (case for case in CASES if case.title == title)
    problems, printed = try_input(case, tmp_path / "case")
    assert problems == [], printed


def test_a_host_whose_owner_is_gone_does_not_import_its_framework() -> None:
    command = [sys.executable, "-m", "synthbench.run.host", "torch"]
    host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    out, _ = host.communicate(timeout=300)  # closes its input at once
    assert (host.returncode, out) == (0, b"")


@pytest.mark.long
def test_a_few_kills(tmp_path: Path) -> None:
    report = Report()
    kills = [
        Kill("child", "SIGKILL", True, 0.1, 0.0),
        Kill("parent", "Ctrl-C twice", True, 0.5, 0.05),
    ]
    try_kills(kills, tmp_path / "kills", report)
    assert report.findings == []
    assert report.counts["kills", "child"].tried == 1
    assert report.counts["kills", "resume to the end"].tried == 1


# --- the judge -----------------------------------------------------------------------------------


def test_a_handled_input_has_no_problem() -> None:
    assert judge_input(CASE, GOOD, []) == []


@pytest.mark.parametrize(
    ("ended", "problem"),
    [
        (replace(GOOD, code=None), "it hangs"),
        (replace(GOOD, code=1), "exit code 1 instead of 2"),
        (replace(GOOD, code=-11), "exit code -11 instead of 2"),
        (replace(GOOD, err=TRACEBACK), "a traceback"),
        (replace(GOOD, err=""), "no message"),
        (replace(GOOD, err="a\nb\nc\nd\ne\n"), "a message of 5 lines"),
        (replace(GOOD, err="x" * 3000), "a line of 3000 characters"),
        (replace(GOOD, err="\x1b[31m"), "an escape sequence in the message"),
        (replace(GOOD, out="x"), "a refused command prints to standard output"),
        (replace(GOOD, loaded=("torch",)), "torch imported by the command itself"),
    ],
)  # fmt: skip
def test_an_input_that_is_not_handled_is_reported(ended: Ended, problem: str) -> None:
    assert judge_input(CASE, ended, []) == [problem]


def test_a_wrong_message_and_a_changed_file_are_reported(tmp_path: Path) -> None:
    case = replace(CASE, says="run.json", files={"a/run.json": "{}", "b": "x"})
    write_files(case.files, tmp_path)
    before = fingerprint(tmp_path)
    (tmp_path / "a/run.json").write_text("")
    (tmp_path / "b").unlink()
    (tmp_path / "new").touch()
    assert judge_input(case, GOOD, changed_files(before, fingerprint(tmp_path))) == [
        "the message does not say 'run.json'",
        "files were created or changed: a/run.json, b, new",
    ]


def test_a_command_that_hangs_or_raises_is_reported(tmp_path: Path) -> None:
    """From end to end: a plug-in that raises what no command expects."""
    source = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    case = Case("k", "n", ("list", "variants", "--plugin", "own"), {"own.py": source})
    report = Report()
    try_inputs([case], tmp_path, report)
    assert [finding.problem for finding in report.findings] == [
        "exit code -9 instead of 2", "no message",
    ]  # fmt: skip
    assert json.loads(report.findings[0].line())["case"] == "k: n"
    assert report.counts["inputs", "k"].problems == 1


def test_records_that_are_lost_changed_or_stored_twice_are_reported() -> None:
    assert judge_records(LINES[:2], LINES) == []
    assert judge_records(LINES, LINES[1:]) == ["1 complete records were lost or changed"]
    altered = [LINES[0].replace(b'"ok"', b'"oom"'), *LINES[1:]]
    assert judge_records(LINES, altered) == ["1 complete records were lost or changed"]
    assert judge_records(LINES, LINES[::-1]) == ["complete records changed their order"]
    (twice,) = judge_records(LINES, [*LINES, LINES[0]])
    assert twice.startswith("stored twice: [")
    again = json.dumps(changed(RECORD, "attempt", 1)).encode()
    assert judge_records(LINES, [*LINES, again]) == []


def test_how_a_run_ends_is_judged() -> None:
    assert judge_end(-9, (-9,), "") == []
    assert judge_end(None, (0,), "") == ["it hangs"]
    assert judge_end(1, (0, 2), TRACEBACK) == ["exit code 1 instead of 0 or 2", "a traceback"]


def test_a_process_that_is_left_behind_is_found_and_ended() -> None:
    token = f"tests-left-behind-{os.getpid()}"
    process = subprocess.Popen(["sleep", "300"], env={MARKER: token})
    try:
        # Popen returns when the program starts, a moment before Linux shows its environment.
        deadline = time.monotonic() + 60
        while not marked(token) and time.monotonic() < deadline:
            time.sleep(0.01)
        (found,) = left_behind(token, seconds=0.1)
        assert found == f"{process.pid}: sleep 300"
        assert process.wait(60) == -signal.SIGKILL
        assert marked(token) == []
        assert left_behind(token) == []
    finally:
        process.kill()
        process.wait()
