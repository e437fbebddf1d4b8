"""The README's table is a committed one, its verdicts are linked, its Python runs.

Its links and commands are checked with those of every other page: test_docs.py.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
TABLE = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- end of table -->", re.DOTALL)


def test_the_table_is_the_committed_one() -> None:
    blocks = TABLE.findall(README)
    assert blocks
    for name, block in blocks:
        committed = (ROOT / name).read_text()
        rows = [line for line in committed.splitlines() if line.startswith("|")]
        assert block.strip().splitlines() == rows, f"README.md differs from {name}"


def test_the_verdicts_of_the_same_run_are_linked() -> None:
    for name, _ in TABLE.findall(README):
        assert f"]({Path(name).with_name('ratios.md')})" in README


def test_the_python_runs_as_written() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(code, "README.md", "exec"), {})
