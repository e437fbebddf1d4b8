"""A table as LaTeX."""

from __future__ import annotations

from itertools import groupby

from tabulate import DataRow, Line, TableFormat

from synthbench.printable import one_line
from synthbench.report.data.table import Table
from synthbench.report.text.escaping import latex_cell
from synthbench.report.text.layout import is_text, tabulated


def latex(table: Table) -> str:
    """A tabular with booktabs rules, for a table environment; the notes are comments."""
    comments = [
        f"% {one_line(line)}"
        for line in (table.title, table.note, *table.context, r"needs \usepackage{booktabs}")
    ]
    labels = [latex_cell(column.label) for column in table.columns]
    rows = [[latex_cell(text) for text in row] for row in table.shown]
    lines = tabulated(table, labels, rows, _booktabs(table)).split("\n")
    if any(column.group for column in table.columns):
        below_toprule = lines.index(r"\toprule") + 1
        lines[below_toprule:below_toprule] = _latex_groups(table)
    body = "\n".join(map(_not_an_argument, lines)).replace("±", r"$\pm$")
    return "\n".join([*comments, body]) + "\n"


def _booktabs(table: Table) -> TableFormat:
    """The format of tabulate's name `latex_booktabs`, for cells that are escaped already."""
    letters = "".join("l" if is_text(column) else "r" for column in table.columns)
    row = DataRow("", "&", r"\\")
    return TableFormat(
        lineabove=Line(rf"\begin{{tabular}}{{{letters}}}" + "\n" + r"\toprule", "", "", ""),
        linebelowheader=Line(r"\midrule", "", "", ""),
        linebetweenrows=None,
        linebelow=Line("\\bottomrule\n\\end{tabular}", "", "", ""),
        headerrow=row,
        datarow=row,
        padding=1,
        with_header_hide=None,
    )


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
