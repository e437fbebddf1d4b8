"""The README's table is a committed one, its verdicts are linked, its Python runs.

Its links and commands are checked with those of every other page: test_docs.py.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.doc_examples import TABLE, committed_rows

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_table_is_the_committed_one() -> None:
    blocks = TABLE.findall(README)
    assert blocks
    for name, block in blocks:
        assert block == committed_rows(name), (
            f"README.md differs from {name}; write it again with `python -m tests.doc_examples`"
        )


def test_each_ratio_has_the_verdict_of_the_committed_run() -> None:
    for name, block in TABLE.findall(README):
        folder = (ROOT / name).parent
        heading, _, *rows = [re.split(r" *\| *", line)[1:-1] for line in block.strip().splitlines()]
        length = re.search(r"at length (\d+)", (ROOT / name).read_text())
        assert length is not None
        judged = {
            (row["framework"], row["mode"], row["variant"]): row[f"L={length[1]} verdict"]
            for row in csv.DictReader((folder / "ratios.csv").read_text().splitlines())
        }
        ratios = [at for at, column in enumerate(heading) if "speed vs" in column]
        assert ratios
        for at in ratios:
            framework = heading[at].partition(" ")[0]
            assert heading[at + 1] == f"{framework} verdict"
            for row in rows:
                verdict = judged.get((framework, Path(name).stem, row[0]), "baseline")
                assert row[at + 1] == verdict.partition(" (")[0], row


def test_the_verdicts_of_the_same_run_are_linked() -> None:
    for name, _ in TABLE.findall(README):
        assert f"]({Path(name).with_name('ratios.md')})" in README


def test_the_python_runs_as_written() -> None:
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(code, "README.md", "exec"), {})
