"""The files below a run's `tables/`: made from its records, byte for byte the same each time."""

from __future__ import annotations

from pathlib import Path

from synthbench.errors import ResultsError
from synthbench.report.markup import FORMATS, markdown_section
from synthbench.report.table import Table
from synthbench.report.tables import make_tables
from synthbench.store import Run, read_run

FOLDER = "tables"
INDEX = "README.md"


def render(run: Run) -> dict[str, str]:
    """Every file of a run's tables folder, name -> text."""
    tables = make_tables(run)
    files = {
        f"{table.name}.{suffix}": write(table)
        for table in tables
        for suffix, write in FORMATS.values()
    }
    return {INDEX: _index(run, tables), **files}


def write_tables(run: Run) -> Path:
    """Write a run's tables and return their folder; other files in it are left alone.

    Raises ResultsError where the folder cannot be written.
    """
    folder = run.path / FOLDER
    files = render(run)
    try:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_bytes(text.encode())
    except OSError as error:
        raise ResultsError(
            f"cannot write tables to {folder}: {error.strerror}; check its permissions and the "
            "space on the disk"
        ) from error
    return folder


def check(run_dir: str | Path) -> list[str]:
    """What differs between a run's tables folder and its records: a line for each file."""
    run = read_run(Path(run_dir))
    folder = run.path / FOLDER
    files = render(run)
    present = _present(folder)
    problems = [f"{folder / name}: missing" for name in sorted(files.keys() - present)]
    problems += [
        f"{folder / name}: belongs to no table; remove it"
        for name in sorted(present - files.keys())
    ]
    problems += [
        f"{folder / name}: differs from what the records give"
        for name in sorted(files.keys() & present)
        if _content(folder / name) != files[name].encode()
    ]
    return problems


def _index(run: Run, tables: list[Table]) -> str:
    """All tables on one page; the context, which they share, stands at its head."""
    head = [f"# {run.info.suite} on {run.info.device}", ""]
    head += [f"{line}  " for line in tables[0].context]
    head += ["", "Made from `records.jsonl` by `synthbench tables`; do not edit.", ""]
    return "\n".join(head) + "\n" + "\n".join(map(markdown_section, tables))


def _present(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise ResultsError(f"cannot read {folder}: {error.strerror}") from error


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
