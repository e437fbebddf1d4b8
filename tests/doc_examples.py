"""Example rows and screens in the documentation, made from the records of a committed run.

A block names its run, its table, the rows by their first columns, and (optionally) the columns to
show beside the key columns:

    <!-- example: seq_scaling/cpu-reference ratios | torch / train / linformer | L=2048 -->

A screen names its run, its framework and its mode:

    <!-- screen: seq_scaling/cpu-reference torch train -->

A whole table names its file, as in README.md:

    <!-- table: results/seq_scaling/cpu-reference/tables/train.md -->

`python -m tests.doc_examples` writes all of them again; tests/test_docs.py compares them.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path

from synthbench.report.data.prepared import prepare
from synthbench.report.data.selection import Selection
from synthbench.report.data.table import Table, for_reading
from synthbench.report.screen.screen import screen_lines, screen_of
from synthbench.report.tables.catalog import make_tables
from synthbench.report.text.markdown import markdown
from synthbench.store import read_run

ROOT = Path(__file__).resolve().parents[1]
PAGES = tuple(ROOT / "docs" / name for name in ("tables.md", "quickstart.md", "tasks.md"))
PAGES_WITH_SCREENS = PAGES[:2]
EXAMPLE = re.compile(
    r"<!-- example: (?P<run>\S+) (?P<table>\w+) \| (?P<rows>[^|]*?)(?: \| (?P<columns>[^|]*?))? -->"
    r"\n\n(?P<body>.*?)\n\n<!-- end of example -->",
    re.DOTALL,
)
SCREEN = re.compile(
    r"<!-- screen: (?P<run>\S+) (?P<framework>\w+) (?P<mode>\w+) -->\n\n```text\n"
    r"(?P<body>.*?)```\n\n<!-- end of screen -->",
    re.DOTALL,
)
TABLE = re.compile(r"<!-- table: (\S+) -->\n\n(.*?)\n\n<!-- end of table -->", re.DOTALL)
SCREEN_HEIGHT = 14  # what one framework and mode takes on a screen that is full


@cache
def tables_of(run: str) -> dict[str, Table]:
    """The tables of a committed run, by name."""
    return {table.name: table for table in make_tables(read_run(ROOT / "results" / run))}


def rendered(example: re.Match[str]) -> str:
    """The rows of an example as Markdown, from the run's records."""
    table = tables_of(example["run"])[example["table"]]
    prefixes = tuple((example["columns"] or "").split(", "))
    shown = [
        at
        for at, column in enumerate(table.columns)
        if column.is_key or column.name.startswith(prefixes)
    ]
    asked = [tuple(row.split(" / ")) for row in example["rows"].split("; ")]
    rows = []
    for keys in asked:
        found = [
            row
            for row in table.rows
            if tuple(map(for_reading, table.columns, row))[: len(keys)] == keys
        ]
        assert found, f"{example['run']}: table {table.name} has no row {' / '.join(keys)}"
        rows.append(tuple(found[0][at] for at in shown))
    part = dataclasses.replace(table, columns=tuple(table.columns[at] for at in shown), rows=rows)
    return "\n".join(line for line in markdown(part).splitlines() if line.startswith("|"))


def committed_rows(name: str) -> str:
    """The rows of a committed table in Markdown, by its path from the root."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def rendered_screen(example: re.Match[str]) -> str:
    """The screen of an example, from the run's records."""
    prepared = prepare(read_run(ROOT / "results" / example["run"]))
    selection = Selection(frameworks=(example["framework"],), modes=(example["mode"],))
    lines = screen_lines(screen_of(prepared, selection), height=SCREEN_HEIGHT)
    return "".join(f"{line.text}\n" for line in lines)


def rewritten(page: str) -> str:
    """The page with every example made again."""

    def replace(example: re.Match[str]) -> str:
        head, _, tail = example.group(0).partition(example["body"])
        return head + rendered(example) + tail

    def replace_screen(screen: re.Match[str]) -> str:
        head, _, _ = screen.group(0).partition("```text\n")
        return f"{head}```text\n{rendered_screen(screen)}```\n\n<!-- end of screen -->"

    def replace_table(table: re.Match[str]) -> str:
        return table.group(0).replace(table[2], committed_rows(table[1]))

    page = TABLE.sub(replace_table, EXAMPLE.sub(replace, page))
    return SCREEN.sub(replace_screen, page)


if __name__ == "__main__":
    for page in (ROOT / "README.md", *PAGES):
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
