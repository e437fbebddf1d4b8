"""A table as Markdown."""

from __future__ import annotations

from synthbench.report.data.table import Table
from synthbench.report.text.escaping import markdown_cell, markdown_prose
from synthbench.report.text.layout import tabulated


def markdown(table: Table) -> str:
    """A heading, the table as GitHub Markdown, the note, and the context of the run."""
    return with_context(table, markdown_section(table))


def with_context(table: Table, section: str) -> str:
    """The section of a table with the context of the run below it."""
    return "\n".join([section, *context_lines(table)]).rstrip() + "\n"


def context_lines(table: Table) -> list[str]:
    """The context of the run, one line each: two spaces at a line's end are a line break."""
    return [f"{markdown_prose(line)}  " for line in table.context]


def markdown_section(table: Table) -> str:
    """`markdown` without the context, for a page with several tables."""
    lines = [f"## {markdown_prose(table.title)}", ""]
    if table.rows:
        headings = [markdown_cell(column.name) for column in table.columns]
        rows = [[markdown_cell(text) for text in row] for row in table.shown]
        lines += [tabulated(table, headings, rows, "pipe"), ""]
    return "\n".join([*lines, markdown_prose(table.note)]) + "\n"
