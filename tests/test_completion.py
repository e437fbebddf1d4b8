"""Shell completion of suites, runs, variants, devices and tables, without slow imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from synthbench.cli import completion
from synthbench.cli.app import app
from synthbench.devices import KINDS
from synthbench.mixers.catalog import SHOWCASE
from synthbench.report.tables.catalog import TABLES
from synthbench.suites.find import list_suites
from synthbench.suites.selection import FRAMEWORKS, MODES
from tests.command_line import REPOSITORY, Captured, made_run, synthbench

SLOW = ("torch", "jax", "flax", "pandas", "scipy", "altair", "ruptures", "rich")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name in ("tiny/one", "tiny/two", "tall/one"):
        made_run(tmp_path / "results" / name)
    return tmp_path / "results"


def completing(line: str) -> dict[str, str]:
    """The environment in which bash asks to complete the last word of a line."""
    position = str(len(line.split(" ")) - 1)
    return {"_SYNTHBENCH_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": position}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("synthbench compare t", ["tiny", "tall", "tiny/one", "tiny/two", "tall/one"]),
        ("synthbench compare tiny tiny/t", ["tiny/two"]),
        ("synthbench tables results/tall/", ["results/tall/one"]),
        ("synthbench history t", ["tiny", "tall"]),
        ("synthbench export ta", ["tall", "tall/one"]),
        ("synthbench run --suite smo", ["smoke"]),
        ("synthbench run --device cp", ["cpu"]),
        ("synthbench run --framework torch,", ["torch,jax"]),
        ("synthbench tune --variants V,lin", ["V,linformer"]),
        ("synthbench show light", ["light_conv"]),
        ("synthbench claims tiny/t", ["tiny/two"]),
        ("synthbench com", ["compare"]),
    ],
)
def test_bash_is_offered(
    results: Path,
    line: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    monkeypatch.chdir(results.parent)
    for name, value in completing(line).items():
        monkeypatch.setenv(name, value)
    _, out, err = synthbench(capsys)
    assert sorted(out.split()) == sorted(expected)
    assert err == ""


@pytest.mark.parametrize(
    "line",
    ["synthbench compare tiny/o", "synthbench run --variants V,linf", "synthbench run --suite"],
)
def test_completion_loads_nothing_slow(results: Path, line: str) -> None:
    code = (
        "import atexit, json, sys\n"
        f"loaded = lambda: [name for name in {SLOW!r} if name in sys.modules]\n"
        "atexit.register(lambda: print(json.dumps(loaded()), file=sys.stderr))\n"
        "from synthbench.cli.app import main\n"
        "main([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=results.parent, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)} | completing(line), timeout=60,
        check=False,
    )  # fmt: skip
    assert json.loads(done.stderr) == []


def test_every_argument_of_a_kind_is_completed() -> None:
    """By the names of the parameters, so that a new command cannot forget it."""
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    kinds = {"suite", "run", "runs", "device", "variant", "variants", "framework", "mode"}
    found: set[str] = set()
    for name, command in commands.commands.items():
        for parameter in command.params:
            if parameter.name in kinds:
                custom = getattr(parameter, "_custom_shell_complete", None)
                if (name, parameter.name) in NOT_COMPLETED:
                    continue
                assert custom is not None, f"{name} does not complete {parameter.name}"
                found.add(str(parameter.name))
    assert found == kinds


# A name of the user's own, and a framework and a mode of which one is chosen.
NOT_COMPLETED = {("inspect", "framework"), ("init", "suite"), ("plot", "mode")}


def test_all_suites_variants_and_tables_are_offered() -> None:
    assert completion.complete_suite("") == list(list_suites())
    assert completion.complete_frameworks("") == list(FRAMEWORKS)
    assert completion.complete_modes("") == list(MODES)
    assert completion.complete_modes("train,f") == ["train,forward"]
    assert completion.complete_frameworks("torch,") == ["torch,jax"]  # not torch again
    offered = completion.complete_variants("V,FR(rank=32)+V,")
    assert not {"V,FR(rank=32)+V,V", "V,FR(rank=32)+V,FR(rank=32)+V"} & {*offered}
    assert "V,FR(rank=32)+V,R" in offered
    assert completion.complete_variant("") == SHOWCASE
    assert completion.complete_table("") == list(TABLES)
    assert completion.complete_table("memory_") == ["memory_parts"]


def test_history_is_offered_suites_and_not_folders(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A run may have been written to a folder of another name, as by --out."""
    (results / "tall").rename(results / "thick")
    (results / "tiny" / "two" / "run.json").write_text("[")
    monkeypatch.chdir(results.parent)
    for name, value in completing("synthbench history t").items():
        monkeypatch.setenv(name, value)
    assert synthbench(capsys)[1].split() == ["tall", "tiny"]


def test_suite_files_are_offered_by_path(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").touch()
    (tmp_path / "own.txt").touch()
    (tmp_path / "more").mkdir()
    (tmp_path / ".hidden.yaml").touch()
    assert completion.complete_suite(f"{tmp_path}/") == [
        f"{tmp_path}/more/",
        f"{tmp_path}/own.yaml",
    ]
    assert completion.complete_suite(f"{tmp_path}/ow") == [f"{tmp_path}/own.yaml"]
    assert completion.complete_suite(f"{tmp_path}/missing/x") == []


def test_the_last_of_several_variants_is_completed() -> None:
    complete = completion.complete_variants
    assert complete("FR(rank=32)+V,linf") == ["FR(rank=32)+V,linformer"]
    assert complete("FD(a=2,b") == []  # within parentheses nothing is separated
    assert complete("R,FR(rank=3") == ["R,FR(rank=32)"]


def test_gpus_are_offered_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "tty0"):
        (tmp_path / name).touch()
    monkeypatch.setattr(completion, "GPU_FILES", tmp_path)
    assert completion.complete_device("cuda:") == ["cuda:0", "cuda:2", "cuda:10"]
    monkeypatch.setattr(completion, "GPU_FILES", tmp_path / "missing")
    assert completion.complete_device("") == ["auto", *KINDS]
