"""A table as Markdown."""

from __future__ import annotations

from synthbench.report.data.table import Table
from synthbench.report.text.layout import readable, tabulated


def markdown(table: Table) -> str:
    """A heading, the table as GitHub Markdown, the note, and the context of the run."""
    lines = [markdown_section(table), *(f"{line}  " for line in table.context)]
    return "\n".join(lines).rstrip() + "\n"  # two spaces at a line's end: a line break


def markdown_section(table: Table) -> str:
    """`markdown` without the context, for a page with several tables."""
    lines = [f"## {table.title}", ""]
    if table.rows:
        headings = [_escape_markdown(column.name) for column in table.columns]
        rows = [[_escape_markdown(text) for text in row] for row in readable(table)]
        lines += [tabulated(table, headings, rows, "pipe"), ""]
    return "\n".join([*lines, table.note]) + "\n"


def _escape_markdown(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")
