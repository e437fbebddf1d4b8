"""The check for a GPU machine: what it finds is kept, whatever a step does; here on a CPU."""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu_check import __main__ as check
from benchmarks.gpu_check import machine, runs, steps, torch_attention
from benchmarks.gpu_check.finding import ABSENT, END, FAILED, RAN, Finding, Settings, tried
from benchmarks.gpu_check.summary import summary

CPU = Settings("cpu", small=True)


def test_the_page_lists_every_step() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "gpu.md").read_text()
    table = page.partition("## What only a GPU can show")[2]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert listed == list(steps.STEPS)


def test_a_finding_is_a_line() -> None:
    one = Finding("cells", "torch V", RAN, correct=False, figure="1 ms", seconds=1.25)
    assert one.line() == (
        '{"step": "cells", "branch": "torch V", "outcome": "ran", "correct": false, '
        '"figure": "1 ms", "seconds": 1.25}'
    )
    assert Finding.read(one.line()) == one
    assert one.is_bad and Finding("a", "b", FAILED).is_bad
    assert not Finding("a", "b", ABSENT).is_bad and not Finding("a", "b", RAN, True).is_bad


def test_what_a_branch_raises_is_its_reason() -> None:
    def fails() -> tuple[bool | None, str]:
        raise RuntimeError("no such kernel" + "!" * 1000)

    found = tried("step", "branch", fails)
    assert (found.outcome, found.correct) == (FAILED, None)
    assert found.reason.startswith("RuntimeError: no such kernel!!")
    assert len(found.reason) == 500
    fine = tried("step", "branch", lambda: (True, "3 ms"))
    assert (fine.outcome, fine.correct, fine.figure) == (RAN, True, "3 ms")


def test_a_step_that_hangs_is_ended_and_what_it_found_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = (
        "import sys, time; print('noise'); "
        'print(\'{"step": "cells", "branch": "a", "outcome": "ran"}\', flush=True); '
    )
    found: list[Finding] = []

    def ran(code: str, limit: float, left: float = math.inf) -> list[tuple[str, str, str]]:
        found.clear()
        original: Any = subprocess.Popen

        def started(command: list[str], **options: Any) -> Any:
            return original([command[0], "-c", program + code], **options)

        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", started)
            ended = check.run_step("cells", CPU, limit, found.append, left)
        assert ended == any(one.is_end for one in found)
        return [(one.branch, one.outcome, one.reason) for one in found]

    begin = time.monotonic()
    assert ran("time.sleep(600)", 2.0) == [
        ("a", RAN, ""), (END, FAILED, "ended after 2 s"),
    ]  # fmt: skip
    assert ran("time.sleep(600)", 30.0, left=2.0) == [("a", RAN, "")]  # to be done again
    assert time.monotonic() - begin < 60
    assert ran("sys.exit('no device')", 30.0) == [
        ("a", RAN, ""), (END, FAILED, "exit code 1: no device\n"),
    ]  # fmt: skip
    assert ran("pass", 30.0) == [("a", RAN, ""), (END, RAN, "")]


def test_a_step_that_is_interrupted_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import time; "
        'print(\'{"step": "cells", "branch": "a", "outcome": "ran"}\', flush=True); '
        "time.sleep(600)"
    )
    original: Any = subprocess.Popen
    children: list[subprocess.Popen[bytes]] = []

    def started(command: list[str], **options: Any) -> Any:
        children.append(original([command[0], "-c", program], **options))
        return children[0]

    def interrupted(finding: Finding) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", started)
    try:
        with pytest.raises(KeyboardInterrupt):
            check.run_step("cells", CPU, 60.0, interrupted)
        assert children[0].wait(timeout=10) == -signal.SIGKILL
    finally:
        children[0].kill()


OPTIONS = ["--small", "--device", "cpu"]


@pytest.fixture
def tried_steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that the check runs from now on, each of which ends."""
    tried_ones: list[str] = []

    def run_step(
        name: str,
        settings: Settings,
        limit: float,
        keep: Callable[[Finding], None],
        left: float,
    ) -> bool:
        assert settings == CPU
        assert limit == steps.STEPS[name].limit
        assert left > 0
        tried_ones.append(name)
        if left < 5:
            return False
        keep(Finding(name, END))
        return True

    monkeypatch.setattr(check, "run_step", run_step)
    return tried_ones


def test_a_check_that_was_cut_short_goes_on(tmp_path: Path, tried_steps: list[str]) -> None:
    kept = [Finding("machine", "versions", figure="1"), Finding("machine", END)]
    (tmp_path / "settings.json").write_text(CPU.dump())
    lines = "".join(finding.line() + "\n" for finding in kept)
    (tmp_path / "findings.jsonl").write_text(lines + '{"step": "cel')
    options = ["--out", str(tmp_path), *OPTIONS]
    assert check.main(options) == 0
    assert tried_steps == [name for name in steps.STEPS if name != "machine"]
    text = (tmp_path / "summary.md").read_text()
    assert "1 branches: 1 ran" in text and "Not run" not in text
    tried_steps.clear()
    assert check.main(options) == 0 and tried_steps == []
    assert check.main([*options, "--step", "machine"]) == 0
    assert tried_steps == ["machine"]


def test_steps_without_time_are_run_by_the_next_call(
    tmp_path: Path, tried_steps: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--out", str(tmp_path), *OPTIONS]
    assert check.main([*options, "--minutes", "0"]) == 1
    assert tried_steps == []
    assert "No time left for machine, " in capsys.readouterr().out
    assert "Not run: machine, " in (tmp_path / "summary.md").read_text()
    assert check.main([*options, "--minutes", "0.05"]) == 1  # begun, and cut short
    assert "No time left for machine, " in capsys.readouterr().out
    assert tried_steps
    tried_steps.clear()
    assert check.main(options) == 0
    assert tried_steps == list(steps.STEPS)


def test_a_step_that_was_interrupted_is_done_again(
    tmp_path: Path, tried_steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a whole: what it found before is not told twice."""

    def interrupted(
        name: str, settings: object, limit: float, keep: Callable[..., None], left: float
    ) -> bool:
        keep(Finding(name, "the first branch"))
        raise KeyboardInterrupt

    options = ["--out", str(tmp_path), *OPTIONS]
    with monkeypatch.context() as patched:
        patched.setattr(check, "run_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            check.main(options)
    assert check.main(options) == 0
    assert tried_steps == list(steps.STEPS)
    assert "the first branch" not in (tmp_path / "findings.jsonl").read_text()


@pytest.mark.parametrize("other", [["--device", "cpu"], [*OPTIONS, "--framework", "torch"]])
def test_findings_of_another_check_are_not_taken_for_its_own(
    other: list[str], tmp_path: Path, tried_steps: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path)]
    assert check.main([*out, *OPTIONS, "--step", "machine"]) == 0
    assert check.main([*out, *other]) == 2
    assert tried_steps == ["machine"]
    assert "give another --out" in capsys.readouterr().err


def test_the_summary_begins_with_what_is_wrong() -> None:
    found = [
        Finding("machine", "driver", ABSENT, reason="none | here"),
        Finding("cells", "torch V", RAN, True, "1 ms"),
        Finding("cells", "torch FD", RAN, False, "2 ms"),
    ]
    text = summary(found, Settings("cuda:1"))
    assert text.startswith("# The check on cuda:1\n\n3 branches: 1 absent, 2 ran; 1 with a wrong")
    assert text.index("torch FD") < text.index("## machine") < text.index("torch V")
    assert "none \\| here" in text
    assert "Not run: torch_attention, " in text


def test_the_limits_of_the_steps_leave_time_for_all_but_the_last() -> None:
    assert sum(step.limit for step in list(steps.STEPS.values())[:-2]) < 60 * check.MINUTES + 120


def outcomes(found: Iterator[Finding]) -> dict[str, tuple[str, bool | None]]:
    return {one.branch: (one.outcome, one.correct) for one in found}


def test_the_machine_without_a_gpu() -> None:
    found = outcomes(machine.run(Settings("cpu", True, ("torch",))))
    assert found["torch in a forked child"] == (RAN, True)
    assert found["versions"] == (RAN, None)


def test_the_attention_of_pytorch_is_held_to_float64() -> None:
    shape = torch_attention.Shape(9, 8, shared_keys=True, padded=True)
    from torch.nn.attention import SDPBackend

    correct, figure = torch_attention.one(CPU, SDPBackend.MATH, shape)
    assert correct, figure
    assert shape.name == "L 9, size 8, keys with batch stride 0, padding as a feature"


@pytest.mark.long
def test_a_cell_of_the_real_runner_and_one_that_runs_out_of_time() -> None:
    content = runs.suite_of(CPU, measure={"parity": False})
    (record,) = runs.run_suite(CPU, "torch", content)
    found = runs.of_record("cells", "torch V", record)
    assert (found.outcome, found.correct) == (RAN, True), found
    assert found.figure.startswith("ok; ") and " ms; " in found.figure and " MB (" in found.figure
    assert not runs.of_record("ends", "torch oom", record, wanted="oom").correct
    content["axes"]["variant"] = ["nonsense"]
    with pytest.raises(RuntimeError, match=r"exit code 2: .*nonsense"):
        runs.run_suite(CPU, "torch", content)
