"""docs/comparing.md: its example is what the command prints, and its CI file works as written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from synthbench.cli.app import app
from synthbench.report.compare.gate import parse_conditions
from synthbench.suites.plan import make_plan
from synthbench.suites.suite import load_suite
from tests.command_line import Captured, synthbench
from tests.test_compare import records, store
from tests.test_tables import run_of

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SUITE, WORKFLOW = (body for language, body in BLOCKS if language == "yaml")


def steps() -> list[list[str]]:
    """The words of each synthbench command in the CI file."""
    (job,) = yaml.safe_load(WORKFLOW)["jobs"].values()
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("synthbench ")]


def test_the_example_is_what_the_command_prints(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = (body for language, body in BLOCKS if language == "console")
    command, _, expected = example.partition("\n")
    monkeypatch.chdir(ROOT)
    code, out, err = synthbench(capsys, *shlex.split(command.removeprefix("$ synthbench ")))
    assert (code, err) == (0, "")
    shown = "\n".join(line.rstrip() for line in out.splitlines()).rstrip() + "\n"
    assert shown == expected, "copy the output of the command into docs/comparing.md again"


def test_the_suite_of_the_ci_file_can_be_judged(tmp_path: Path) -> None:
    (tmp_path / "ci.yaml").write_text(SUITE)
    plan = make_plan(load_suite(tmp_path / "ci.yaml"), "cpu")
    rounds = plan.settings.measure.rounds
    assert isinstance(rounds, int) and rounds >= 3 and plan.settings.measure.aa
    assert {cell.variant for cell in plan.cells} == {"V", "FR(rank=32)+V", "linformer"}


def test_the_runs_of_the_ci_file_are_the_ones_it_compares() -> None:
    runs = [words for words in steps() if words[0] == "run"]
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    for words in runs:
        assert all(word in shown for word in words if word.startswith("--"))
    written = [words[words.index("--out") + 1] for words in runs]
    assert written == ["results/ci/base", "results/ci/head"]
    assert [words[1:3] for words in steps() if words[0] == "compare"] == [
        ["ci/base", "ci/head"]
    ] * 2


@pytest.mark.parametrize(("slowdown", "expected"), [(1.0, 0), (1.2, 1)])
def test_the_gate_of_the_ci_file_closes_for_a_slowdown_only(
    slowdown: float,
    expected: int,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, changes in (("base", {}), ("head", {("R", 128): slowdown})):
        store(run_of(records(changes)), tmp_path / "results" / "ci" / name)
    monkeypatch.chdir(tmp_path)
    commands = [words[: words.index(">>")] if ">>" in words else words for words in steps()]
    codes = [synthbench(capsys, *words)[0] for words in commands if words[0] == "compare"]
    assert codes == [0, expected]


def test_the_page_lists_every_condition() -> None:
    body = PAGE.partition("| condition | is met by a cell |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(.*?)` \|", body, re.MULTILINE)
    kinds = {condition.kind for condition in parse_conditions(listed)}
    assert kinds == {"slower", "faster", "memory", "failed", "contradiction", "any"}
