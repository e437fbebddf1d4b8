"""A table as LaTeX."""

from __future__ import annotations

from itertools import groupby

from synthbench.printable import one_line
from synthbench.report.data.table import Table
from synthbench.report.text.escaping import latex_cell, latex_cells
from synthbench.report.text.layout import aligned, is_text


def latex(table: Table) -> str:
    """A tabular with booktabs rules, for a table environment; the notes are comments."""
    comments = [
        f"% {one_line(line)}"
        for line in (table.title, table.note, *table.context, r"needs \usepackage{booktabs}")
    ]
    found = aligned(
        table,
        latex_cells([column.label for column in table.columns]),
        list(map(latex_cells, table.shown_columns)),
        (" ", " & ", r" \\"),
    )
    letters = "".join("l" if is_text(column) else "r" for column in table.columns)
    groups = _latex_groups(table) if any(column.group for column in table.columns) else []
    lines = [
        rf"\begin{{tabular}}{{{letters}}}",
        r"\toprule",
        *groups,
        found.heading,
        r"\midrule",
        *found.rows,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    body = "\n".join(map(_not_an_argument, lines)).replace("±", r"$\pm$")
    return "\n".join([*comments, body]) + "\n"


def _latex_groups(table: Table) -> list[str]:
    """The line of group headings, and the rules under them."""
    headings, rules, first = [], [], 1
    for group, members in groupby(table.columns, key=lambda column: column.group):
        count = len(list(members))
        headings.append(rf"\multicolumn{{{count}}}{{c}}{{{latex_cell(group)}}}")
        if group:
            rules.append(rf"\cmidrule(lr){{{first}-{first + count - 1}}}")
        first += count
    return [" & ".join(headings) + r" \\", " ".join(rules)]


def _not_an_argument(line: str) -> str:
    r"""A line that the \\ or the rule before it does not read as its optional argument."""
    return "{}" + line if line.lstrip().startswith(("[", "*")) else line
