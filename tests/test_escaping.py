"""Texts from records and run.json in every format: shown as they are, and never anything else."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console

from synthbench.printable import one_line
from synthbench.record import Record
from synthbench.report.data.metrics import metric_named
from synthbench.report.data.table import Column, Table
from synthbench.report.export import frames
from synthbench.report.figures.image_files import write_figures
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.escaping import csv_cell
from synthbench.report.text.files import render
from synthbench.report.text.latex import latex
from synthbench.report.text.markdown import markdown
from synthbench.report.text.terminal import print_tables
from tests.test_tables import cell, record, run_of

PARSER = MarkdownIt("gfm-like", {"linkify": False})
NASTY = (
    "a\n% b", "x\\", "\\\\[2pt]", "[red]x[/nope]", "[a](http://b.c)", "<b>&lt;<script>", "*a* _b_",
    "`c`", "``d` e", "a|b\\|c", "~~f~~", "# g", "1. h", "- i", "> j", "=1+1", "+2", "@k", "-1.5",
    "a\x1b[31mb", "\r\nl", "\u202em", ":smile:", "![n](o)", "&amp;", "p  ", "\t=q", "$r$", "==",
    "\ud800", "* s", "a ##", "[^1]", "'=1", "tie_query", "__t__", "\x00", "\u2028u",
)  # fmt: skip
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text("ab 1.\\`*_[](){}<>&;#|~!@=+-$%^\"'\n\r\t:/\x1b", max_size=20),
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.lists(st.sampled_from(NASTY), min_size=2, max_size=3).map("".join),
)
FAST = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def table(*texts: str, title: str = "A title", note: str = "A note.") -> Table:
    """A table with a row per text: once first in its row and once last, with a number between."""
    columns = (
        Column("variant", is_key=True), Column("count", "exponent", "50 %"), Column("reason"),
    )  # fmt: skip
    rows: list[Any] = [(text, -1.5, text) for text in texts]
    return Table("mine", title, note, ("A context.",), columns, rows)


def cells(text: str) -> list[list[str]]:
    """The texts of the cells of the only table of a Markdown document; no markup may be in it."""
    rows: list[list[str]] = []
    inside = False
    for token in PARSER.parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open"):
            inside = True
        elif token.type == "inline" and inside:
            rows[-1].append(plain(token))
            inside = False
    return rows


def plain(token: Token) -> str:
    """The text of an inline token, without any markup in it."""
    kinds = {child.type for child in token.children or ()}
    assert kinds <= {"text", "text_special"}, (token.content, kinds)
    return "".join(child.content for child in token.children or ())


@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
@example(texts=list(NASTY))
@FAST
def test_a_markdown_parser_reads_the_cells_as_they_are(texts: list[str]) -> None:
    found = cells(markdown(table(*texts)))
    assert found[0] == ["variant", "50 % count", "reason"]
    shown = [one_line(text).strip() for text in texts]
    assert found[1:] == [[text, "-1.50", text] for text in shown]


@given(text=TEXTS, title=TEXTS)
@example(text="see `synthbench tables` and <b>", title="# x #")
@FAST
def test_titles_and_notes_are_one_paragraph_without_markup(text: str, title: str) -> None:
    document = PARSER.parse(markdown(table(title=title, note=text)))
    kinds = [token.type for token in document]
    filled = ["paragraph_open", "inline", "paragraph_close"]
    context = filled if one_line(text).strip() else filled[:0]
    assert kinds in (
        ["heading_open", "inline", "heading_close", *filled],
        ["heading_open", "inline", "heading_close", *filled, *context],
    )
    for token in document:
        assert {child.type for child in token.children or ()} <= {
            "text", "text_special", "code_inline", "softbreak", "hardbreak",
        }  # fmt: skip
    inline = [token for token in document if token.type == "inline"]
    if "`" not in title:
        assert plain(inline[0]) == one_line(title).strip()


UNESCAPED = re.compile(r"(?<!\\)(?:\\\\)*[&%$#_{}~^]")


@given(texts=st.lists(TEXTS, min_size=1, max_size=3), title=TEXTS)
@example(texts=list(NASTY), title="a\n\\input{b}")
@FAST
def test_latex_has_no_special_character_of_a_text(texts: list[str], title: str) -> None:
    made = latex(table(*texts, title=title, note=title))
    comments, _, body = made.partition("\\begin{tabular}")
    assert all(line.startswith("% ") for line in comments.removesuffix("\n").split("\n"))
    assert not set(comments) & set("\r\x0b\x0c\x85\u2028\u2029")
    lines = body.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0].split("\n")
    assert len(lines) == len(texts)
    for line, text in zip(lines, texts, strict=True):
        assert line.endswith(r"\\")
        row = line.removeprefix("{}").removesuffix(r"\\")
        shown = [part.strip() for part in re.split(r"(?<!\\)&", row)]
        assert len(shown) == 3
        assert {unescaped(shown[0]), unescaped(shown[2])} == {one_line(text).strip()}
        assert not line.lstrip().startswith(("[", "*"))  # an argument of the \\ before it


MACROS = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\^{}": "^", r"\ensuremath{<}": "<",
    r"\ensuremath{>}": ">", r"$\pm$": "±", **{rf"\{c}": c for c in "&%$#_{}"},
}  # fmt: skip
TOKEN = re.compile("|".join(re.escape(macro) for macro in MACROS) + r"|[^\\&%$#_{}~^<>]")


def unescaped(text: str) -> str:
    """What LaTeX prints; nothing but plain characters and the known macros may be in it."""
    assert re.fullmatch(f"(?:{TOKEN.pattern})*", text), text
    return "".join(MACROS.get(found, found) for found in TOKEN.findall(text)).strip()


def test_a_group_heading_cannot_end_its_line_in_latex() -> None:
    assert r"\multicolumn{1}{c}{50 \%}" in latex(table("a"))


@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
@example(texts=list(NASTY))
@FAST
def test_csv_reads_back_as_the_text_and_is_no_formula(texts: list[str]) -> None:
    content = csv_text(table(*texts))
    rows = list(csv.reader(io.StringIO(content.encode().decode(), newline="")))
    assert rows[0] == ["variant", "50 % count", "reason"]
    for (first, number, last), text in zip(rows[1:], texts, strict=True):
        assert number == "-1.5"
        assert first == last
        is_kept = not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", text)
        if is_kept:
            assert first in (text, f"'{text}")
        assert not re.match(r"[=@\t\r]|[+-].*[^0-9.eE%+-]", first)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("@SUM(1)", "'@SUM(1)"),
        ("-2+3", "'-2+3"), ("-1.5", "-1.5"), ("+3", "+3"), ("-1e-05", "-1e-05"), ("-2.5%", "-2.5%"),
        ("-", "-"), ("R+V", "R+V"), ("\t=1", "'\t=1"), ("a\nb", "a\nb"), ("\x1b[2J", r"\x1b[2J"),
    ],
)  # fmt: skip
def test_only_what_a_spreadsheet_would_execute_is_defused(text: str, written: str) -> None:
    assert csv_cell(text) == written


@given(texts=st.lists(TEXTS, min_size=1, max_size=3), title=TEXTS)
@example(texts=list(NASTY), title="[/nope] :smile:")
@FAST
def test_a_terminal_gets_no_control_characters_and_no_markup(texts: list[str], title: str) -> None:
    out = io.StringIO()
    print_tables(Console(file=out, width=100), [table(*texts, title=title, note=title)])
    printed = out.getvalue()
    assert not [c for c in printed if c != "\n" and unicodedata.category(c) in ("Cc", "Cs", "Cf")]
    for text in (title, *texts):
        words = one_line(text).split()
        assert all(word in printed for word in words if len(word) <= 20)


def forged(text: str) -> list[Record]:
    """Records with a text wherever a record has one."""
    made = cell("V", "torch", "forward", 64, label=text)
    other = cell(text, "torch", "forward", 64)
    warned = record(other, warnings=[text], kernels=[text], form=text)
    return [warned, record(made, outcome="crashed", reason=text)]


def test_all_tables_of_a_forged_run_hold_together() -> None:
    text = "x\n\\input{y} | <img src=z onerror=a> \x1b[2J [b](c) ```"
    run = run_of(forged(text), suite=text, device=text, started=text, finished=None, executor=text)
    for name, content in render(run).items():
        content.encode()
        assert "\x1b" not in content
        if name.endswith(".md"):
            for token in PARSER.parse(content):
                kinds = {child.type for child in token.children or ()} | {token.type}
                assert not kinds & {"html_inline", "html_block", "link_open", "image", "fence"}
        if name.endswith(".tex"):
            assert "\\input{" not in content.partition("\\begin")[2]
            comments = content.partition("\\begin")[0].splitlines()
            assert all(line.startswith("% ") for line in comments)


def test_the_exported_csv_is_defused_and_keeps_its_numbers() -> None:
    records = forged("=HYPERLINK(1)")
    rows = list(csv.DictReader(io.StringIO(frames.csv_text(records))))
    assert [row["label"] for row in rows] == ["", "'=HYPERLINK(1)"]
    assert rows[0]["variant"] == rows[1]["reason"] == "'=HYPERLINK(1)"
    assert float(rows[0]["median_seconds"]) == pytest.approx(0.01)
    odd = frames.csv_text(forged("a\rb\x00\nc"))
    assert next(csv.DictReader(io.StringIO(odd, newline="")))["variant"] == "a b\\x00\nc"


def test_metric_labels_cannot_break_a_heading() -> None:
    assert metric_named("a|b").label == "a|b"
    columns = (Column("variant"), Column("<i>|", "a|b"))
    made = Table("mine", "T", "N", (), columns, [("V", 1.0)])
    assert cells(markdown(made))[0] == ["variant", "<i>|"]


def test_figures_have_the_text_and_no_control_characters(tmp_path: Path) -> None:
    text = "<script>&amp; \x1b[0m\x00 \ufffe \ud800 b\nc"
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": text, "data": {"values": [{"a": text, "b": 1}]}, "mark": "bar",
        "encoding": {"y": {"field": "a", "type": "nominal"}, "x": {"field": "b"}},
    }  # fmt: skip
    svg, _ = write_figures({"mine": spec}, tmp_path)
    content = svg.read_text()
    assert "<script" not in content
    texts = "".join(ElementTree.fromstring(content).itertext())
    assert r"<script>&amp; \x1b[0m\x00 \ufffe \ud800 b c" in texts
