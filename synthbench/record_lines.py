"""The lines of files of records: which there are, packed or not, and what each holds."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from synthbench.errors import ResultsError
from synthbench.packed import PackedFile, begins_with
from synthbench.record import SCHEMA_VERSION, Record
from synthbench.run_files import at_once, explained, require_regular


@dataclass(frozen=True)
class Damage:
    """A line of a file of records that is not a record."""

    line: int  # from 1
    problem: str
    content: bytes
    file: str  # in the run's folder

    def __str__(self) -> str:
        return f"line {self.line} of {self.file} is damaged ({self.problem})"


class RawLine(NamedTuple):
    """A line of a file of records, with its newline if it has one."""

    content: bytes
    number: int  # from 1, in the file that has it now
    size: int  # of the content, without a newline that only separates it from what follows
    is_packed: bool


def raw_lines(run_dir: Path, name: str, packed: PackedFile | None) -> Iterator[RawLine]:
    """The lines of a file of records: those that are packed, then those written since.

    A line that is packed and still in the file counts once, also where the file has changed before
    it: half a line at its end is completed when the run goes on, or moved aside.
    """
    path = run_dir / name
    known = _bytes_packed(path, name, packed)
    is_changed = known == 0 and os.path.lexists(path)
    seen: set[bytes] = set()
    last: RawLine | None = None
    if packed is not None:
        for number, content in packed.lines(name):
            if last is not None:
                yield last
            last = RawLine(content, number, len(content), True)
            if is_changed:
                seen.add(_digest(content))
    for number, content in _lines_on_disk(path, known):
        if seen and _digest(content) in seen:
            continue
        if last is not None:
            text = last.content
            yield last._replace(content=text if text.endswith(b"\n") else text + b"\n")
            last = None
        yield RawLine(content, number, len(content), False)
    if last is not None:
        yield last


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line.removesuffix(b"\n")).digest()


def _bytes_packed(path: Path, name: str, packed: PackedFile | None) -> int:
    """How many bytes of a file are packed as they stand at its beginning; 0 if it has changed."""
    part = packed.part(name) if packed is not None else None
    if part is None or not os.path.lexists(path):
        return 0
    with explained("read", path):
        return part.bytes if begins_with(path, part) else 0


def _lines_on_disk(path: Path, known: int) -> Iterator[tuple[int, bytes]]:
    """The lines that a file has after its first `known` bytes."""
    with explained("read", path):
        if not os.path.lexists(path):  # a link to nowhere is damage, not an empty run
            return
        with open(path, "rb", opener=at_once) as file:
            require_regular(file.fileno(), path)
            for number, line in enumerate(file, start=1):
                known -= len(line)
                if known < 0:
                    yield number, line


def parse_record(line: bytes, path: Path) -> Record | None:
    """The record of a line; None for a damaged one. ResultsError for another schema."""
    record = record_of(line, 0, path, path.name)
    return None if isinstance(record, Damage) else record


def record_of(line: bytes, number: int, path: Path, file: str) -> Record | Damage:
    """The record of a line, or what is wrong with it; ResultsError for another schema.

    `file`: the name of `path` in the folder of the run.
    """
    try:
        record = Record.model_validate_json(line)
    except ValidationError:
        return _explained_record_of(line, number, path, file)
    if record.schema_version != SCHEMA_VERSION:
        require_known_schema({"schema_version": record.schema_version}, path)
    return record


def _explained_record_of(line: bytes, number: int, path: Path, file: str) -> Record | Damage:
    """`record_of` in two steps: three times as slow, with better messages."""
    try:
        raw = json.loads(line)
        require_known_schema(raw, path)
        return Record.model_validate(raw)
    except ValidationError as error:
        return Damage(number, first_problem(error), line, file)
    except (ValueError, RecursionError) as error:  # not JSON, or not UTF-8
        return Damage(number, str(error), line, file)


def find_repeated(
    numbers: dict[tuple[str, int, int], int], record: Record, number: int, path: Path
) -> None:
    """Note the line of a record; ResultsError if another line is the same measurement."""
    if (first := numbers.setdefault(record.key, number)) != number:
        raise ResultsError(
            f"{path}: lines {first} and {number} are both round {record.round} of cell "
            f"{record.id}; each may be there once: remove one of the two lines"
        )


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, with its place."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def require_known_schema(raw: Any, path: Path) -> None:
    """Raise ResultsError if the content of a file has another schema than this version reads."""
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if not isinstance(version, int) or version == SCHEMA_VERSION:
        return
    if version > SCHEMA_VERSION:
        raise ResultsError(
            f"{path} was written by a newer synthbench (schema {version}; this one reads "
            f"{SCHEMA_VERSION}); update synthbench to read it"
        )
    raise ResultsError(
        f"{path} was written by an older synthbench (schema {version}; this one reads "
        f"{SCHEMA_VERSION}); measure it again, or read it with the version that wrote it"
    )
