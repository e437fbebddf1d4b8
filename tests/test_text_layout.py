"""Texts by column: the same bytes as cell by cell, and as tabulate aligns them."""

from __future__ import annotations

import csv
import io
import math

from hypothesis import given
from hypothesis import strategies as st
from tabulate import DataRow, Line, TableFormat, tabulate

from synthbench.metrics import significant
from synthbench.printable import one_line
from synthbench.report.data.table import Column, Marked, Table, for_machines, for_reading
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.escaping import csv_cell, latex_cell, markdown_cell
from synthbench.report.text.latex import latex
from synthbench.report.text.markdown import markdown_section

COLUMNS = (
    Column("setting", is_key=True),
    Column("length", "exact_count", is_key=True),
    Column("ms", "median_seconds", "torch"),
    Column("a_b & c", "peak_bytes", "torch"),
    Column("verdict"),
)
WORDS = st.sampled_from(
    ["oom", "not measured", "a_b|c", " x ", "12*", "=1+1", "-3", "ä\x1b[1m", ""]
)
TEXTS = WORDS | st.text(max_size=8)
NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(0, 10**9)
VALUES = NUMBERS | st.floats(1e-7, 1e13).map(Marked) | TEXTS


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = st.tuples(TEXTS, st.integers(0, 10**6), VALUES, VALUES, TEXTS)
    return Table("some", "A title", "A note.", ("first", "second"), COLUMNS, draw(st.lists(rows)))


def aligned_by_tabulate(
    table: Table, headings: list[str], rows: list[list[str]], form: object
) -> str:
    alignment = ["left" if column.metric is None else "right" for column in table.columns]
    made: str = tabulate(rows, headings, form, colalign=alignment, disable_numparse=True)  # type: ignore[arg-type]
    return made


@given(table=tables())
def test_markdown_is_what_tabulate_aligns(table: Table) -> None:
    headings = [markdown_cell(column.name) for column in table.columns]
    rows = [[markdown_cell(text) for text in row] for row in table.shown]
    expected = ["## A title", "", "A note."]
    if rows:
        expected[2:2] = [aligned_by_tabulate(table, headings, rows, "pipe"), ""]
    assert markdown_section(table) == "\n".join(expected) + "\n"


@given(table=tables())
def test_latex_is_what_tabulate_aligns(table: Table) -> None:
    row = DataRow("", "&", r"\\")
    rule = Line(r"\midrule", "", "", "")
    form = TableFormat(None, rule, None, None, row, row, 1, None)
    headings = [latex_cell(column.label) for column in table.columns]
    rows = [[latex_cell(text) for text in row] for row in table.shown]
    found = latex(table).split("\n")
    body = found[found.index(r"\cmidrule(lr){3-4}") + 1 : found.index(r"\bottomrule")]
    expected = aligned_by_tabulate(table, headings, rows, form).replace("±", r"$\pm$").split("\n")
    protected = ["{}" + line if line.lstrip()[:1] in ("[", "*") else line for line in expected]
    assert body == protected


@given(table=tables())
def test_columns_have_the_texts_of_their_cells(table: Table) -> None:
    pairs = [list(zip(table.columns, row, strict=True)) for row in table.rows]
    assert table.shown == [[one_line(for_reading(*pair)) for pair in row] for row in pairs]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([csv_cell(column.name) for column in table.columns])
    lines.writerows([csv_cell(for_machines(*pair)) for pair in row] for row in pairs)
    assert csv_text(table) == out.getvalue()


@given(
    value=st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**15), 10**15),
    digits=st.integers(1, 6),
)
def test_significant_digits_by_their_definition(value: float, digits: int) -> None:
    if value == 0:
        expected = "0"
    elif not 1e-6 <= abs(value) < 1e12:
        expected = f"{value:.{digits - 1}e}"
    else:
        exponent = math.floor(float(f"{value:.{digits - 1}e}".partition("e")[2]))
        expected = f"{value:.{max(digits - 1 - exponent, 0)}f}"
    assert significant(value, digits) == expected
