"""A table as Markdown, CSV and LaTeX text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from itertools import groupby

from tabulate import tabulate

from synthbench.report.table import Column, Table, for_machines, for_reading


def markdown(table: Table) -> str:
    """A heading, the table in GitHub's form, the note, and the run's context."""
    lines = [markdown_section(table), *(f"{line}  " for line in table.context)]
    return "\n".join(lines).rstrip() + "\n"  # two spaces at a line's end: a line break


def markdown_section(table: Table) -> str:
    """`markdown` without the context, for a page that says it once."""
    lines = [f"## {table.title}", ""]
    if table.rows:
        headings = [_escape_markdown(column.name) for column in table.columns]
        rows = [[_escape_markdown(text) for text in row] for row in _readable(table)]
        lines += [_tabulated(table, headings, rows, "pipe"), ""]
    return "\n".join([*lines, table.note]) + "\n"


def csv_text(table: Table) -> str:
    """A heading line and the values: numbers in the unit of their column, or words."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows(list(map(for_machines, table.columns, row)) for row in table.rows)
    return out.getvalue()


def latex(table: Table) -> str:
    """A tabular with booktabs rules, to be put into a table environment; notes as comments."""
    comments = [
        f"% {line}"
        for line in (table.title, table.note, *table.context, r"needs \usepackage{booktabs}")
    ]
    labels = [column.label for column in table.columns]
    lines = _tabulated(table, labels, _readable(table), "latex_booktabs").splitlines()
    if any(column.group for column in table.columns):
        below_toprule = lines.index(r"\toprule") + 1
        lines[below_toprule:below_toprule] = _latex_groups(table)
    body = "\n".join(lines).replace("±", r"$\pm$")
    return "\n".join([*comments, body]) + "\n"


def is_text(column: Column) -> bool:
    """Whether a column holds words alone, which stand to the left."""
    return column.metric is None


FORMATS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", markdown),
    "csv": ("csv", csv_text),
    "latex": ("tex", latex),
}


def _readable(table: Table) -> list[list[str]]:
    return [list(map(for_reading, table.columns, row)) for row in table.rows]


def _tabulated(table: Table, headings: list[str], rows: list[list[str]], form: str) -> str:
    alignment = ["left" if is_text(column) else "right" for column in table.columns]
    return tabulate(rows, headings, form, colalign=alignment, disable_numparse=True)


def _escape_markdown(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def _latex_groups(table: Table) -> list[str]:
    """The line of group headings, and the rule under each."""
    headings, rules, first = [], [], 1
    for group, members in groupby(table.columns, key=lambda column: column.group):
        count = len(list(members))
        headings.append(rf"\multicolumn{{{count}}}{{c}}{{{group}}}")
        if group:
            rules.append(rf"\cmidrule(lr){{{first}-{first + count - 1}}}")
        first += count
    return [" & ".join(headings) + r" \\", " ".join(rules)]
