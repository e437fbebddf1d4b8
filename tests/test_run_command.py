"""`synthbench run`: what it prints and measures, the code it exits with, and how it goes on."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command

from synthbench.cli.app import app
from synthbench.cli.call_again import call_again
from synthbench.run import runner
from synthbench.run.runner import Summary
from synthbench.store import read_run
from tests.command_line import (
    ENVIRONMENT,
    Captured,
    made_run,
    refused,
    suite_file,
    synthbench,
)


def test_a_run_from_end_to_end(capsys: Captured, tmp_path: Path) -> None:
    suite, out = suite_file(tmp_path), tmp_path / "out"
    call = ["run", "--suite", suite, "--device", "cpu", "--out", str(out)]
    code, printed, err = synthbench(capsys, *call)
    assert code == 0, err
    assert printed.startswith("tiny on cpu: 2 variants, torch, forward, length 8, 1 round")
    assert "parity 2 of 2" in printed
    assert len(printed.splitlines()) <= 40
    assert str(out / "tables") in printed
    assert {record.cell.variant for record in read_run(out).records} == {"V", "R"}
    assert synthbench(capsys, "tables", str(out), "--check")[0] == 0
    assert "not empty" in refused(capsys, *call)
    before = (out / "records.jsonl").read_bytes()
    assert read_run(out).info.options == []
    again = [*call, "--resume", "--variants", "V,R", "--seq-len", "8", "--allow-changed"]
    assert synthbench(capsys, *again)[0] == 0
    assert (out / "records.jsonl").read_bytes() == before
    assert read_run(out).info.options == ["--variants=V,R", "--seq-len=8"]


@pytest.mark.parametrize(
    ("outcome", "missing", "expected"),
    [
        ("ok", {}, 0), ("oom", {}, 0), ("timeout", {}, 0), ("unsupported", {}, 0),
        ("crashed", {}, 1), ("quarantined", {}, 1),
        ("ok", {"jax": "no GPU"}, 2), ("crashed", {"jax": "no GPU"}, 2),
    ],
)  # fmt: skip
def test_what_came_out_decides_the_exit_code(
    outcome: str,
    missing: dict[str, str],
    expected: int,
    capsys: Captured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_plan(plan: Any, run_dir: Path, **_: Any) -> Summary:
        made_run(run_dir, outcome)
        return Summary(run_dir, "cpu", 1, Counter({outcome: 1}), missing)

    monkeypatch.setattr(runner, "run_plan", run_plan)
    monkeypatch.chdir(tmp_path)
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu"]
    code, printed, err = synthbench(capsys, *call)
    assert code == expected
    (folder,) = (tmp_path / "results" / "tiny").iterdir()
    assert folder.name.startswith("cpu-")
    assert "Trust: " in printed
    assert (outcome == "ok") == ("so it was" not in printed)
    if outcome in ("crashed", "quarantined"):
        again = (
            f"synthbench run --suite {call[2]} --device cpu --out {folder.relative_to(tmp_path)}"
        )
        assert f"1 {outcome}" in err
        assert f"to measure these again: {again} --resume --retry={outcome}\n" in err
    if missing:
        assert "not run: jax" in err


def test_the_command_that_goes_on_has_every_option_of_the_first_call() -> None:
    command = cast(Any, get_command(app)).commands["run"]
    given = {
        "--framework": ["torch", "jax"], "--variants": ["V,R", "FR(rank=[2, 3])"],
        "--seq-len": ["8,16"], "--mode": ["forward"], "--batch": ["1,2"],
        "--plugin": ["one", "other"], "--data": ["my text.csv"],
        "--machines": ["2"], "--executor": ["slurm"], "--slurm": ["partition=a,time=1", "qos=b"],
        "--slots": ["3"], "--ray-address": ["auto"], "--force": [], "--allow-changed": [],
    }  # fmt: skip
    words = ["--suite", "mine.yaml", "--device", "auto", "--detach", "--results", "elsewhere"]
    for flag, values in given.items():
        words += [word for value in values for word in (flag, value)] or [flag]
    first = command.make_context("run", list(words))
    again = call_again(first, "cpu", Path("my run"), resume=True, retry=["oom,crashed"])
    start, *rest = shlex.split(again)[1:]
    assert start == "run"
    second = command.make_context("run", rest)
    other = {
        "device": "cpu", "out": Path("my run"), "resume": True, "retry": ["oom,crashed"],
        "detach": False, "results": Path("results"),
    }  # fmt: skip
    assert second.params == first.params | other
    missing = {option.opts[0] for option in command.params} - {*given, "--help"}
    assert missing == {
        "--suite", "--device", "--out", "--resume", "--retry", "--detach", "--dry-run", "--results",
    }  # fmt: skip


@pytest.mark.parametrize("forced", [False, True])
def test_force_reaches_the_settings_of_the_run(
    forced: bool, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def run_plan(plan: Any, run_dir: Path, **_: Any) -> Summary:
        seen.append(plan.settings.measure.force)
        return Summary(run_dir, "cpu")

    monkeypatch.setattr(runner, "run_plan", run_plan)
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu", "--out", str(tmp_path / "r")]
    assert synthbench(capsys, *call, *["--force"] * forced)[0] == 0
    assert seen == [forced]


def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(tmp_path: Path) -> None:
    suite, out = suite_file(tmp_path, more="# slow\n"), tmp_path / "a run"
    Path(suite).write_text(Path(suite).read_text().replace("0.001, max_seconds: 0.1", "2"))
    call = ["run", "--suite", suite, "--device", "cpu", "--out", str(out), "--variants", "V,R,Fix"]
    process = subprocess.Popen(
        [sys.executable, "-m", "synthbench", *call], env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[1/3]"):
            process.send_signal(signal.SIGINT)
            break
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(read_run(out).records) == 1
    assert f"1 record is kept in {out}" in err
    assert f"--variants=V,R,Fix --out '{out}' --resume" in err
    assert "Traceback" not in err


def test_resume_where_nothing_has_begun_begins_nothing(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run_plan", lambda *_, **__: pytest.fail("it has begun a run"))
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu", "--resume", "--out"]
    for name in ("absent", "empty", "torn"):
        folder = tmp_path / name
        if name != "absent":
            folder.mkdir()
        if name == "torn":  # killed before its run.json was whole
            (folder / "run.json.new").write_text('{"suite"')
        assert "no run in" in refused(capsys, *call, str(folder))


def test_ctrl_c_before_anything_is_there_does_not_ask_to_resume(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_plan(plan: Any, run_dir: Path, **_: Any) -> Summary:
        return Summary(run_dir, "cpu", interrupted=True)

    monkeypatch.setattr(runner, "run_plan", run_plan)
    out = tmp_path / "out"
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu", "--out", str(out)]
    code, _, err = synthbench(capsys, *call)
    assert code == 130
    assert "interrupted before the first cell was measured" in err
    assert err.rstrip().endswith(f"--out {out}")


def test_ctrl_c_while_a_resumed_run_starts_does_not_deny_its_records(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_plan(plan: Any, run_dir: Path, **_: Any) -> Summary:
        return Summary(run_dir, "cpu", interrupted=True)

    monkeypatch.setattr(runner, "run_plan", run_plan)
    out = made_run(tmp_path / "results" / "tiny" / "1", finished=None)
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu", "--out", str(out)]
    code, _, err = synthbench(capsys, *call, "--resume")
    assert code == 130
    assert "before the first cell" not in err
    assert f"interrupted before another cell was measured: {out} keeps its records" in err
    assert err.rstrip().endswith(f"--out {out} --resume")


def test_ctrl_c_while_cells_are_retried_asks_for_the_others(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_plan(plan: Any, run_dir: Path, **_: Any) -> Summary:
        return Summary(run_dir, "cpu", outcomes=Counter(ok=2), interrupted=True)

    monkeypatch.setattr(runner, "run_plan", run_plan)
    out = made_run(tmp_path / "results" / "tiny" / "1", finished=None)
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu", "--out", str(out)]
    code, _, err = synthbench(capsys, *call, "--resume", "--retry", "crashed,oom")
    assert code == 130
    assert "interrupted: 2 records are kept" in err
    assert err.rstrip().endswith(f"--out {out} --resume --retry=crashed,oom")


def test_a_run_of_another_suite_is_not_continued(capsys: Captured, tmp_path: Path) -> None:
    run = made_run(tmp_path / "smoke" / "1", finished=None)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    call = ["run", "--suite", suite_file(tmp_path), "--device", "cpu", "--resume"]
    message = refused(capsys, *call, "--out", str(run))
    assert "is a run of suite smoke, not of tiny" in message
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_resume_without_out_takes_the_newest_unfinished_run(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = tmp_path / "results" / "tiny"
    made_run(tiny / "1", finished=None)
    made_run(tiny / "2", finished=None)
    made_run(tiny / "3", finished=None, device="cuda")
    made_run(tiny / "4")
    taken: list[Path] = []

    def run_plan(plan: Any, run_dir: Path, *, resume: bool, **_: Any) -> Summary:
        assert resume
        taken.append(run_dir)
        return Summary(run_dir, "cpu")

    monkeypatch.setattr(runner, "run_plan", run_plan)
    monkeypatch.chdir(tmp_path)
    suite = suite_file(tmp_path)
    assert synthbench(capsys, "run", "--suite", suite, "--device", "cpu", "--resume")[0] == 0
    assert taken == [Path("results/tiny/2")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--retry", "unchecked"], "--retry measures cells of an existing run again; add --resume"),
        (["--retry", "oomm", "--resume"], "outcome 'oomm' not known. Did you mean oom"),
        (["--retry", "oom,", "--resume"], "write --retry unchecked,disturbed"),
    ],
)
def test_a_wrong_retry_is_one_clear_message(
    capsys: Captured, arguments: list[str], message: str
) -> None:
    assert message in refused(capsys, "run", "--suite", "smoke", "--device", "cpu", *arguments)
