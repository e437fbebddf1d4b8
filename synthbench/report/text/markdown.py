"""A table as Markdown."""

from __future__ import annotations

from synthbench.report.data.table import Table
from synthbench.report.text.escaping import markdown_cells, markdown_prose
from synthbench.report.text.layout import aligned, is_text


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
        lines += [*_pipe_table(table), ""]
    return "\n".join([*lines, markdown_prose(table.note)]) + "\n"


def _pipe_table(table: Table) -> list[str]:
    headings = markdown_cells([column.name for column in table.columns])
    columns = list(map(markdown_cells, table.shown_columns))
    found = aligned(table, headings, columns, ("| ", " | ", " |"))
    rules = [
        f":{'-' * (width + 1)}" if is_text(column) else f"{'-' * (width + 1)}:"
        for column, width in zip(table.columns, found.widths, strict=True)
    ]
    return [found.heading, f"|{'|'.join(rules)}|", *found.rows]
