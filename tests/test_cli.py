"""The command line: what it prints, where it prints it, and the code it exits with."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from typer.main import get_command

from synthbench import __version__
from synthbench.cli.app import app, main
from synthbench.cli.call_again import call_again
from synthbench.cli.options import split_lengths, split_list
from synthbench.errors import NotationError
from synthbench.record import Record
from synthbench.run import runner
from synthbench.run.runner import Summary
from synthbench.run_info import RunInfo
from synthbench.store import append_record, create_run, read_run
from synthbench.suites.cell import Cell

REPOSITORY = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"}
TINY = """
axes: {variant: [V, R], framework: [torch], mode: [forward], seq_len: [8]}
model: {kind: %s, d_model: 8, heads: 2, vocabulary: 11}
measure: {min_samples: 3, min_seconds: 0.001, max_seconds: 0.1, threads: 1, ceiling: false}
"""

Captured = pytest.CaptureFixture[str]


def synthbench(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command, called in this process."""
    capsys.readouterr()
    code: Any = 0
    try:
        main(arguments)
    except SystemExit as exit:
        code = exit.code or 0
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys: Captured, *arguments: str) -> str:
    """The message of a command that must fail as a user's mistake: one, on standard error."""
    code, out, err = synthbench(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    return err


def cell(variant: str = "V", framework: str = "torch") -> Cell:
    return Cell.from_flat(
        variant=variant,
        framework=framework,
        mode="forward",
        seq_len=8,
        batch=1,
        model="mixer",
        d_model=8,
        heads=2,
        max_len=8,
        compile="compiled",
    )  # fmt: skip


def made_run(folder: Path, outcome: Any = "ok", **changes: Any) -> Path:
    """A run of one record."""
    content: dict[str, Any] = {
        "suite": folder.parent.name, "settings": {"baseline": "V"}, "device": "cpu",
        "started": f"2026-01-01T00:00:00+{folder.name}", "finished": "2026-01-02",
    }  # fmt: skip
    create_run(folder, RunInfo(**content | changes))
    record = Record(
        id=cell().id, cell=cell(), outcome=outcome, reason="so it was", started="2026-01-01",
        wall_seconds=1.0,
    )  # fmt: skip
    append_record(folder, record)
    return folder


def suite_file(folder: Path, kind: str = "mixer", more: str = "") -> str:
    path = folder / "tiny.yaml"
    path.write_text(TINY % kind + more)
    return str(path)


@pytest.mark.parametrize("option", ["--variants", "--variant"])
def test_variants_are_chosen_by_the_same_option_everywhere(
    option: str, capsys: Captured, tmp_path: Path
) -> None:
    suite = suite_file(tmp_path)
    call = ("run", "--suite", suite, "--device", "cpu", "--dry-run", option, "R")
    code, out, _ = synthbench(capsys, *call)
    assert code == 0
    assert ["variants", "R"] in [line.split() for line in out.splitlines()]
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    options = {name: {o for p in one.params for o in p.opts} for name, one in commands.items()}
    taking = {name for name, known in options.items() if "--variants" in known}
    assert taking >= {"run", "tune", "tables", "plot", "history", "inspect"}
    assert [name for name in sorted(taking) if option not in options[name]] == []


# --- parsing -------------------------------------------------------------------------------------


def test_lists_are_split_outside_parentheses_and_quotes() -> None:
    assert split_list(["V,FD(a=2, b=4)+V", "R"]) == ["V", "FD(a=2, b=4)+V", "R"]
    assert split_list(["(R+V)(mixing=layer, bias=true),FR(rank=8)"]) == [
        "(R+V)(mixing=layer, bias=true)", "FR(rank=8)",
    ]  # fmt: skip
    assert split_list(['own(text="a,b)"),V']) == ['own(text="a,b)")', "V"]
    assert split_list(["V,FR(rank=[8, 16])+V"]) == ["V", "FR(rank=[8, 16])+V"]
    assert split_list(["FR(rank=8,V"]) == ["FR(rank=8,V"]  # left whole for notation to explain
    assert split_list([]) == []
    with pytest.raises(NotationError, match="'V,,R' has an empty entry; write variants like V,"):
        split_list(["V,,R"])
    with pytest.raises(NotationError, match=r"'' is empty; .*`synthbench list variants`"):
        split_list([""])
    assert split_lengths(["128, 256", "512"]) == [128, 256, 512]
    with pytest.raises(NotationError, match="'12x' is not an integer"):
        split_lengths(["12x"])
    with pytest.raises(NotationError, match="'' is empty; write lengths like --seq-len 128"):
        split_lengths([""])
    for text in ("-1", "1.5", "٣", "²"):
        with pytest.raises(NotationError, match="is not an integer; write lengths"):
            split_lengths([text])
    with pytest.raises(NotationError, match="too many digits for a length"):
        split_lengths(["9" * 5000])


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["show", "linfromer"], ["'linfromer' not known", "Did you mean linformer"]),
        (["show", "FR(rank=32"], ["expected ','", "at character 11"]),
        (["show", "FR(rank=big)"], ["rank='big'", "expected int"]),
        (["show", "V", "--d-model", "16", "--heads", "3"], ["16 is not divisible by heads 3"]),
        (["show", "V", "--seq-len", "9", "--max-len", "8"], ["length 9 does not fit max_len 8"]),
        (["verify", "V+linformer"], ["cannot stand in a sum"]),
        (["verify", "V", "--framework", "trch"], ["Did you mean torch"]),
        (["run", "--suite", "smok"], ["'smok' not known", "Did you mean smoke"]),
        (["run", "--suite", "smoke", "--device", "npu"], ["use auto, cpu, cuda, tpu"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--framework", "jx"], ["Did you mean jax"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--seq-len", "0"], ["length 0"]),
        (["run", "--suite", "smoke", "--plugin", "no_such_module"], ["cannot be imported"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--resume"], ["no unfinished run"]),
        (["tables"], ["no run found in results"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--resume", "--out", "nowhere"],
         ["no run in nowhere to go on with", "leave --resume out"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--framework", ""],
         ["'' is empty; write --framework torch,jax"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--variants", ""],
         ["'' is empty; write variants like", "synthbench list variants"]),
        (["run", "--suite", "smoke", "--device", "cpu", "--seq-len", ""],
         ["'' is empty; write lengths like --seq-len 128,256"]),
        (["verify", "V", "--framework", ","], ["empty entry; write --framework torch,jax"]),
        (["show", "light_conv", "--d-model", "10", "--heads", "4"], ["heads in 1, 2, 5, 10\n"]),
        (["tables", "smoke/one"], ["run 'smoke/one' not found"]),
        (["tables", ""], ["run '' not found"]),
        (["tables", "."], ["'.' is not a run", "synthbench list runs"]),
        (["tables", "a" * 5000], ["File name too long", "(5009 characters)"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_message(
    arguments: list[str],
    parts: list[str],
    capsys: Captured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(capsys, *arguments)
    assert message.startswith("synthbench: ")
    for part in parts:
        assert part in message


def test_a_wrong_key_in_a_suite_is_named_with_its_file(capsys: Captured, tmp_path: Path) -> None:
    suite = suite_file(tmp_path, more="mesure: {rounds: 2}\n")
    message = refused(capsys, "run", "--suite", suite, "--device", "cpu")
    for part in (suite, "mesure: unknown key", "Did you mean measure"):
        assert part in message


def test_causal_linformer_is_refused_with_the_reason(capsys: Captured, tmp_path: Path) -> None:
    call = ["run", "--suite", suite_file(tmp_path, "decoder"), "--device", "cpu"]
    out = tmp_path / "out"
    message = refused(capsys, *call, "--variants", "linformer", "--out", str(out))
    assert "no cell of suite tiny can be run" in message
    assert "causal" in message
    assert not out.exists()


def test_version_and_help(capsys: Captured) -> None:
    assert synthbench(capsys, "--version") == (0, f"synthbench {__version__}\n", "")
    code, out, _ = synthbench(capsys, "run", "--help")
    assert code == 0
    for option in ("--suite", "--device", "--framework", "--variants", "--seq-len", "--out",
                   "--resume", "--plugin"):  # fmt: skip
        assert option in out
    code, _, err = synthbench(capsys, "rum")
    assert code == 2
    assert "No such command" in err


# --- run -----------------------------------------------------------------------------------------


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
        "--seq-len": ["8,16"], "--plugin": ["one", "other"], "--data": ["my text.csv"],
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


# --- tables, list, show --------------------------------------------------------------------------


def test_tables_are_made_printed_and_checked(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("1", "2"):
        made_run(Path("results/smoke") / name)
    assert synthbench(capsys, "tables", "--check")[0] == 1
    code, out, _ = synthbench(capsys, "tables")
    assert (code, out) == (0, "results/smoke/1/tables\nresults/smoke/2/tables\n")
    code, out, _ = synthbench(capsys, "tables", "--check")
    assert (code, out) == (0, "the tables of 2 runs match the records\n")
    _, out, err = synthbench(capsys, "tables", "smoke")
    assert "results/smoke/2/tables" in out
    assert err == "'smoke' has 2 runs; this is the newest, results/smoke/2\n"
    for spelling in ("smoke/1", "results/smoke/1", str(tmp_path / "results/smoke/1")):
        code, _, err = synthbench(capsys, "tables", spelling, "--check")
        assert (code, err) == (0, "")
    beginnings = {
        "terminal": "smoke on cpu: 1 variant",
        "markdown": "## A train step",
        "csv": "variant,",
        "latex": "%",
    }
    for form, beginning in beginnings.items():
        code, out, _ = synthbench(capsys, "tables", "smoke/1", "--format", form)
        assert code == 0
        assert out.startswith(beginning)
    with Path("results/smoke/1/tables/speed.csv").open("a") as file:
        file.write(" ")
    Path("results/smoke/2/tables/cost.md").unlink()
    code, out, err = synthbench(capsys, "tables", "--check")
    assert code == 1
    assert len(out.splitlines()) == 2
    assert "speed.csv: does not match" in out
    assert "cost.md: missing" in out
    assert "2 files do not match the records" in err
    assert "Did you mean smoke" in refused(capsys, "tables", "smokee")


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}", "", '{"a":', "[" * 100_000])
def test_a_run_json_that_is_none_is_told(content: str, capsys: Captured, tmp_path: Path) -> None:
    run = made_run(tmp_path / "smoke" / "1")
    (run / "run.json").write_text(content)
    message = refused(capsys, "tables", str(run))
    assert "run.json cannot be read as a run's information: " in message
    assert len(message.splitlines()) == 1
    assert "run.json cannot be" in synthbench(capsys, "list", "runs", "--results", str(tmp_path))[1]


def test_records_that_are_a_folder_are_told(capsys: Captured, tmp_path: Path) -> None:
    run = made_run(tmp_path / "tiny" / "1")
    (run / "records.jsonl").unlink()
    (run / "records.jsonl").mkdir()
    message = f"cannot read {run / 'records.jsonl'}: Is a directory"
    assert message in refused(capsys, "tables", str(run))


def test_a_damaged_record_is_told_and_the_rest_is_shown(capsys: Captured, tmp_path: Path) -> None:
    run = made_run(tmp_path / "smoke" / "1")
    with (run / "records.jsonl").open("a") as file:
        file.write('{"id": "half')
    code, out, err = synthbench(capsys, "tables", str(run))
    assert code == 0
    assert "line 2 of records.jsonl is damaged" in err
    assert "1 damaged lines of records.jsonl were skipped." in out


def test_a_folder_that_cannot_be_written_is_named(capsys: Captured, tmp_path: Path) -> None:
    run = made_run(tmp_path / "smoke" / "1")
    (run / "tables").write_text("a file where the folder should be")
    code, out, err = synthbench(capsys, "tables", str(run))
    assert code == 2
    assert out.startswith("smoke on cpu")  # printing needs no folder
    assert f"cannot write tables to {run / 'tables'}" in err


def test_lists(capsys: Captured, tmp_path: Path) -> None:
    code, out, _ = synthbench(capsys, "list", "suites")
    assert code == 0
    assert "smoke" in out
    assert "seq_scaling" in out
    assert "FR(rank=32)" in synthbench(capsys, "list", "variants")[1]
    made_run(tmp_path / "smoke" / "1", "oom", finished=None)
    broken = made_run(tmp_path / "smoke" / "2")
    (broken / "run.json").write_text("{")
    code, out, _ = synthbench(capsys, "list", "runs", "--results", str(tmp_path))
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split()[:2] == ["smoke/1", "cpu"]
    assert "unfinished" in lines[1]
    assert "1 oom" in lines[1]
    assert "cannot be read" in " ".join(lines[2:])
    assert synthbench(capsys, "list", "runs", "--results", str(tmp_path / "no"))[1].startswith(
        "no run"
    )


def test_show_prints_the_definition_and_the_cost(capsys: Captured) -> None:
    sizes = ["--batch", "2", "--seq-len", "8", "--d-model", "16", "--heads", "4", "--max-len", "12"]
    code, out, _ = synthbench(capsys, "show", "factorized_random( rank = 3 ) + Fix", *sizes)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "FR(rank=3)+Fix"
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert "[4, 12, 3]" in rows["factorized_random.left"]
    assert "trained" in rows["factorized_random.left"]
    assert "constant" in rows["fixed_random.logits"]
    assert "N(0, 1^2)" in rows["fixed_random.logits"]
    assert rows["parameters"].split()[1] == str(2 * 4 * 12 * 3 + 2 * 16 * 16 + 2 * 4)
    assert rows["constants"].split()[1] == str(4 * 12 * 12)
    # value and output projections, left right^T once, weights times value: 2 a multiply-accumulate
    flops = 2 * (2 * 2 * 8 * 16 * 16) + 2 * 4 * 8 * 8 * 3 + 2 * 2 * 4 * 8 * 8 * 4
    assert rows["FLOPs"].split()[1] == f"{flops:,}"
    assert "arXiv 2005.00743" in out
    assert "rank=3 (default 8)" in out


def test_reading_and_asking_needs_neither_framework(tmp_path: Path) -> None:
    made_run(tmp_path / "results" / "smoke" / "1")
    script = textwrap.dedent("""
        import importlib.abc, sys

        class Blocker(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("torch", "jax", "jaxlib", "flax", "optax", "fvcore"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Blocker())
        import synthbench.cli
        assert "pandas" not in sys.modules, "the command line must start without pandas"
        for call in (["--help"], ["list", "variants"], ["show", "V"], ["list", "suites"],
                     ["list", "runs"], ["tables", "smoke"], ["tables", "--check"]):
            try:
                synthbench.cli.main(call)
            except SystemExit as exit:
                assert not exit.code, call
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=tmp_path, env=ENVIRONMENT, text=True,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "S = (X query) (X key)^T" in done.stdout
    assert "the tables of 1 run match the records" in done.stdout


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    """As `synthbench list variants | head -0` does: the reader is gone before anything is said."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "synthbench", "list", "variants"], cwd=tmp_path,
            env=ENVIRONMENT, stdout=closed, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")


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


# --- the screen, and more of it ------------------------------------------------------------------

REFERENCE = str(REPOSITORY / "results" / "seq_scaling" / "cpu-reference")


@pytest.fixture
def reference(tmp_path: Path) -> str:
    """A copy of the committed run without its tables."""
    folder = tmp_path / "seq_scaling" / "cpu-reference"
    shutil.copytree(REFERENCE, folder, ignore=shutil.ignore_patterns("tables", "plots"))
    return str(folder)


def test_tables_prints_one_screen_and_writes_every_table(capsys: Captured, reference: str) -> None:
    code, out, err = synthbench(capsys, "tables", reference)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines[:-1])) <= 100
    assert lines[-1] == f"Tables: {reference}/tables"
    code, out, _ = synthbench(
        capsys, "tables", reference, "--framework", "jax", "--seq-len", "512", "--mode", "train",
        "--variants", "V,FR(rank=32)",
    )  # fmt: skip
    assert code == 0
    table = pd.read_csv(Path(REFERENCE) / "tables" / "ratios.csv")
    (ratio,) = table.query("framework == 'jax' and mode == 'train' and variant == 'FR(rank=32)'")[
        "L=512 speed vs V"
    ]
    assert len([line for line in out.splitlines() if f"FR(rank=32) {ratio:.2f}" in line]) == 1
    assert "linformer" not in out
    assert synthbench(capsys, "tables", reference, "--check")[0] == 0
    for path in (Path(REFERENCE) / "tables").iterdir():
        assert (Path(reference) / "tables" / path.name).read_bytes() == path.read_bytes()


def test_a_table_by_name_a_sorted_one_and_all(capsys: Captured, reference: str) -> None:
    code, out, _ = synthbench(
        capsys, "tables", reference, "--table", "memory", "--table", "cost", "--framework=torch",
        "--mode=train", "--seq-len=512", "--sort", "L=512 MB",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("Peak memory by length")
    assert "Parameters and FLOPs" in out
    memory = [line.split() for line in out.splitlines() if line.startswith("torch ")]
    assert [float(line[3].rstrip("*")) for line in memory] == sorted(
        float(line[3].rstrip("*")) for line in memory
    )
    assert len(memory) == 21
    code, out, _ = synthbench(
        capsys, "tables", reference, "--table=ratios", "--format=csv", "--seq-len=128"
    )
    assert code == 0
    assert out.startswith("framework,mode,variant,L=128 speed vs V,L=128 low,L=128 high,L=128 verd")
    code, out, _ = synthbench(capsys, "tables", reference, "--all")
    assert code == 0
    assert len(out.splitlines()) > 1000
    for title in ("A train step", "Speed relative to V", "Cells without numbers"):
        assert title in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "ratio"], "table of this run 'ratio' not known. Did you mean ratios"),
        (["--table", "forms"], "table of this run 'forms' not known."),
        (["--table", ""], "write --table ratios"),
        (["--seq-len", "300"], "length 300 is not in this run; it has 128, 256, 512, 1024, 2048"),
        (["--mode", "eval"], "mode of this run 'eval' not known. Known: forward, train"),
        (["--variants", "linfromer"], "Did you mean linformer?"),
        (["--sort", "L=512 MB"], "--sort orders the rows of tables; add --table NAME or --all"),
        (["--table", "memory", "--sort", "MB"], "column 'MB' not known."),
        (["--check", "--all"], "leave --check and --paper out"),
    ],
)
def test_a_wrong_choice_of_rows_is_one_clear_message(
    arguments: list[str], message: str, capsys: Captured
) -> None:
    told = refused(capsys, "tables", REFERENCE, *arguments)
    assert message in told
    assert len(told.splitlines()) == 1


def test_a_choice_needs_a_run(capsys: Captured, tmp_path: Path) -> None:
    told = refused(capsys, "tables", "--table", "ratios", "--results", str(tmp_path))
    assert "name the run" in told


def test_a_terminal_is_used_to_its_width_and_a_pipe_has_100_columns(
    capsys: Captured, reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    piped = synthbench(capsys, "tables", reference)[1].splitlines()[:-1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    styled = synthbench(capsys, "tables", reference)[1]
    shown = re.sub("\x1b\\[[0-9;]*m", "", styled).splitlines()[:-1]
    assert 90 < max(map(len, piped)) <= 100
    assert 140 < max(map(len, shown)) <= 160
    assert len(shown) < 40
