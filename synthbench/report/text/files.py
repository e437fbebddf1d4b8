"""The files in a run's `tables/`; the same records always give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from synthbench.errors import ResultsError
from synthbench.report.data.columns import read_for_tables
from synthbench.report.data.prepared import Prepared, prepare
from synthbench.report.data.table import Table
from synthbench.report.paper.tables import paper_tables
from synthbench.report.tables.catalog import each_table
from synthbench.report.text.comma_separated import csv_text
from synthbench.report.text.escaping import markdown_prose
from synthbench.report.text.formats import FORMATS
from synthbench.report.text.markdown import (
    context_lines,
    markdown,
    markdown_section,
    with_context,
)
from synthbench.store import Run, without_garbage_collection

FOLDER = "tables"
MOST_ROWS = 2000  # in a file for readers; nobody reads more, and the CSV has all
INDEX = "README.md"
PAPER = "paper"
PAPER_HEAD = """# The paper's tables

The tables of "Synthesizer: Rethinking Self-Attention for Transformer Models" (Tay et al., ICML
2021, arXiv 2005.00743), compared with our measurements. `why` gives the reason for a difference, if
one is known. "paper only" marks quality after training that was not measured here.
Made by `make paper-tables` from the records in `results/`; do not edit.

"""


def render(run: Run, prepared: Prepared | None = None) -> dict[str, str]:
    """Every file of a run's tables folder, name -> text; `prepared`: the run laid out already."""
    with without_garbage_collection():
        return dict(_each_file(run, prepared or prepare(run)))


def _each_file(run: Run, prepared: Prepared) -> Iterator[tuple[str, str]]:
    """`render`, one file after the other, so that one table is in memory at a time."""
    head: list[str] = []
    sections: list[str] = []
    for table in each_table(prepared):
        head = head or context_lines(table)
        sections.append(markdown_section(shortened(table)))
        yield from _files(table, sections[-1])
    yield INDEX, _index(run, head, sections)


def _files(table: Table, section: str) -> Iterator[tuple[str, str]]:
    """A table in every format, `shortened` but for CSV; `section`: what it is in Markdown."""
    for suffix, write in FORMATS.values():
        if write is markdown:
            text = with_context(table, section)
        else:
            text = write(table if write is csv_text else shortened(table))
        yield f"{table.name}.{suffix}", text


def shortened(table: Table) -> Table:
    """The first MOST_ROWS rows of a table, and a note that says where all are."""
    if len(table.rows) <= MOST_ROWS:
        return table
    first = f"The first {MOST_ROWS:,} of {len(table.rows):,} rows; {table.name}.csv has all."
    return replace(table, rows=table.rows[:MOST_ROWS], note=f"{first} {table.note}".strip())


def write_tables(run: Run, prepared: Prepared | None = None) -> Path:
    """Write a run's tables and return their folder; other files in it are not touched.

    Raises ResultsError if the folder cannot be written.
    """
    folder = run.path / FOLDER
    try:
        with without_garbage_collection():
            files = _each_file(run, prepared or prepare(run))
            folder.mkdir(exist_ok=True)
            for name, text in files:
                (folder / name).write_bytes(text.encode())
    except OSError as error:
        raise ResultsError(
            f"cannot write tables to {folder}: {error.strerror}; check its permissions and the "
            "free disk space"
        ) from error
    return folder


def check(run_dir: str | Path) -> list[str]:
    """The differences between a run's tables folder and its records: one line per file."""
    run = read_for_tables(Path(run_dir))
    return differences(run.path / FOLDER, render(run))


def differences(folder: Path, files: Mapping[str, str]) -> list[str]:
    """The differences between a folder and the files that should be in it: one line per file."""
    present = _present(folder)
    problems = [f"{folder / name}: missing" for name in sorted(files.keys() - present)]
    problems += [
        f"{folder / name}: not a table of this run; delete it"
        for name in sorted(present - files.keys())
    ]
    problems += [
        f"{folder / name}: does not match the records"
        for name in sorted(files.keys() & present)
        if _content(folder / name) != files[name].encode()
    ]
    return problems


def render_paper(results: Path) -> dict[str, str]:
    """Every file of the paper's tables, name -> text; INDEX has all tables on one page."""
    made = paper_tables(results)
    sections = [markdown_section(shortened(table)) for table in made]
    files = {INDEX: PAPER_HEAD + "\n".join(sections)}
    for table, section in zip(made, sections, strict=True):
        files |= _files(table, section)
    return files


def write_paper(results: Path, page: Path | None = None) -> Path:
    """Write the paper's tables into `results/paper`, and all on one `page`; return the folder.

    Raises ResultsError if they cannot be written.
    """
    folder = results / PAPER
    files = render_paper(results)
    targets = {folder / name: text for name, text in files.items()}
    if page is not None:
        targets[page] = files[INDEX]
    for path, text in targets.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        except OSError as error:
            raise ResultsError(
                f"cannot write {path}: {error.strerror}; check its permissions and the free "
                "disk space"
            ) from error
    return folder


def check_paper(results: Path) -> list[str]:
    """The differences between the paper's tables in `results` and the records, if there are any."""
    folder = results / PAPER
    return differences(folder, render_paper(results)) if folder.is_dir() else []


def _index(run: Run, context: Sequence[str], sections: Sequence[str]) -> str:
    """All tables on one page, with the common context at the top."""
    head = [f"# {markdown_prose(f'{run.info.suite} on {run.info.device}')}", ""]
    head += context
    head += ["", "Made from `records.jsonl` by `synthbench tables`; do not edit.", ""]
    return "\n".join(head) + "\n" + "\n".join(sections)


def _present(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise ResultsError(f"cannot read {folder}: {error.strerror}") from error


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
