"""The README's table is a committed one, its Python runs, its commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TABLE = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- end of table -->", re.DOTALL)
COMMANDS = re.findall(r"^    ((?:synthbench|make) .*)$", README, re.MULTILINE)


def test_the_table_is_the_committed_one() -> None:
    blocks = TABLE.findall(README)
    assert blocks
    for name, block in blocks:
        committed = (ROOT / name).read_text()
        rows = [line for line in committed.splitlines() if line.startswith("|")]
        assert block.strip().splitlines() == rows, f"README.md differs from {name}"


def test_the_python_runs_as_written() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(code, "README.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_exists(command: str) -> None:
    """Its make target is there, or its subcommand knows each option."""
    from synthbench.cli.app import app

    words = shlex.split(command, comments=True)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    shown = CliRunner().invoke(app, [words[1], "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for option in (word for word in words if word.startswith("--")):
        assert option in shown.output, f"{words[1]} has no {option}"


def test_links_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
