"""`synthbench tables`: what it prints of a run, what it writes, and what it refuses."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.command_line import (
    REPOSITORY,
    Captured,
    made_run,
    refused,
    synthbench,
)


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


def test_a_run_that_was_interrupted_before_its_first_tables_is_not_checked(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of one's own, ended by Ctrl-C, must not make `make test` fail; a named one does."""
    monkeypatch.chdir(tmp_path)
    made_run(Path("results/smoke/1"))
    interrupted = made_run(Path("results/smoke/2"), finished=None)
    synthbench(capsys, "tables", "smoke/1")
    code, out, err = synthbench(capsys, "tables", "--check")
    assert (code, out) == (0, "the tables of 1 run match the records\n")
    assert err == f"{interrupted} is unfinished and has no tables yet; not checked\n"
    code, out, _ = synthbench(capsys, "tables", "smoke/2", "--check")
    assert code == 1
    assert "results/smoke/2/tables/speed.csv: missing" in out
    synthbench(capsys, "tables", "smoke/2")
    (interrupted / "tables" / "speed.csv").unlink()  # it has tables: they are checked
    assert synthbench(capsys, "tables", "--check")[0] == 1
    made_run(Path("results/smoke/3"))  # finished: its tables are missing
    code, out, _ = synthbench(capsys, "tables", "--check")
    assert code == 1
    assert "results/smoke/3/tables/speed.csv: missing" in out


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


def test_a_table_says_which_choice_it_cannot_follow(capsys: Captured, reference: str) -> None:
    """Its rows would otherwise look as if they were those of the mode and length."""
    choice = ("--mode", "train", "--seq-len", "128", "--variants", "R")
    code, _, told = synthbench(capsys, "tables", reference, "--table", "parity,ratios", *choice)
    assert code == 0
    assert told.splitlines() == [
        "without a mode, so shown whole: parity", "without a length, so shown whole: parity",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((REFERENCE, "--paper"), "leave --paper out for the tables of that run"),
        (("--check", "--paper"), "--paper writes, and --check writes nothing"),
    ],
)
def test_tables_of_the_paper_are_neither_of_one_run_nor_checked_while_written(
    arguments: tuple[str, ...], message: str, capsys: Captured, tmp_path: Path
) -> None:
    """--check was left out silently, and files were written."""
    assert message in refused(capsys, "tables", *arguments, "--results", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


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
