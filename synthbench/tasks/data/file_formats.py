"""Read columns of text from a file: lines, CSV, TSV or JSONL, in UTF-8."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from synthbench.errors import DataError, UnknownNameError, quote
from synthbench.tasks.data.texts import as_text, value_at

LONGEST_FIELD = 2**31 - 1  # characters; csv refuses more than 131,072 unless told otherwise

Column = str | int  # a name; or a position, counted from 1, in a file without names
Texts = dict[Column, list[str]]


def require_file(path: Path) -> None:
    """Raise DataError or UnknownNameError unless this is a file of a known format."""
    if path.suffix.lower() not in READERS:
        raise UnknownNameError(f"data file {path}: its format", path.suffix, READERS)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise DataError(
            f"data file {path} is {what}; give the path of a file, seen from {Path.cwd()}"
        )


def read_columns(path: Path, columns: Sequence[Column]) -> Texts:
    """The texts of these columns; raises DataError for what cannot be read as such."""
    require_file(path)
    found = READERS[path.suffix.lower()](path, _text_of(path), columns)
    if not all(found.values()):
        raise DataError(f"data file {path} has no rows; give a file with text")
    return found


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"data file {path} is not UTF-8 text ({error.reason} at byte {error.start}); save it "
            "as UTF-8"
        ) from None
    except OSError as error:
        raise DataError(f"data file {path} cannot be read: {error.strerror or error}") from None


def _lines(path: Path, text: str, columns: Sequence[Column]) -> Texts:
    """One row per line that is not blank; the only column is `text`."""
    for name in columns:
        if name != "text":
            raise _no_column(path, name, ["text"])
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return {"text": [line for line in lines if line.strip()]}


def _csv(path: Path, text: str, columns: Sequence[Column]) -> Texts:
    return _table(path, csv.reader(io.StringIO(text, newline=""), strict=True), columns)


def _tsv(path: Path, text: str, columns: Sequence[Column]) -> Texts:
    """Fields between tabs, in which a quotation mark is a character like others."""
    plain = csv.reader(io.StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    return _table(path, plain, columns)


def _table(path: Path, reader: Any, columns: Sequence[Column]) -> Texts:
    """Rows of fields under a header; where columns are given by position, there is no header."""
    csv.field_size_limit(LONGEST_FIELD)
    by_position = all(isinstance(name, int) for name in columns)
    rows = _numbered(path, reader)
    first = next(rows, (0, []))
    header: list[Column] = (
        list(range(1, len(first[1]) + 1)) if by_position else list[Column](first[1])
    )
    for name in columns:
        if name not in header:
            raise _no_column(path, name, header)
        if header.count(name) > 1:
            raise DataError(
                f"data file {path}: {header.count(name)} columns are called {quote(name)}; give "
                "each a name of its own"
            )
    places = [(name, header.index(name)) for name in columns]
    found: Texts = {name: [] for name in columns}
    for number, fields in [first, *rows] if by_position else rows:
        if len(fields) != len(header):
            raise DataError(
                f"data file {path}, line {number}: {len(fields)} fields, and the first line has "
                f"{len(header)}; quote a text with separators in it"
            )
        for name, place in places:
            found[name].append(fields[place])
    return found


def _numbered(path: Path, reader: Any) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with the number of their last line."""
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise DataError(f"data file {path}, line {reader.line_num}: {error}") from None


def _jsonl(path: Path, text: str, columns: Sequence[Column]) -> Texts:
    """One JSON object per line that is not blank."""
    found: Texts = {name: [] for name in columns}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"data file {path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{where}: {quote(line)} is not JSON") from None
        if not isinstance(row, dict):
            raise DataError(f'{where}: {quote(row)} is not a JSON object, like {{"text": ...}}')
        for name in columns:
            try:
                value = value_at(row, str(name))
            except KeyError:
                raise _no_column(path, name, list(row), number) from None
            found[name].append(as_text(value, f"{where}: {name}"))
    return found


def _no_column(
    path: Path, name: Column, columns: Sequence[Column], line: int | None = None
) -> DataError:
    where = f"data file {path}" if line is None else f"data file {path}, line {line}"
    has = ", ".join(map(str, columns)) or "none"
    return DataError(
        f"{where}: there is no column {quote(name)}; it has {quote(has)}. Name the file's "
        "columns like columns: {text: sentence}"
    )


READERS: dict[str, Callable[[Path, str, Sequence[Column]], Texts]] = {
    ".txt": _lines,
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
}
