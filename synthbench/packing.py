"""Pack the records of a run into one Parquet file, and write the original files again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from synthbench.errors import ResultsError
from synthbench.packed import (
    PACKED,
    ROWS_PER_GROUP,
    PackedFile,
    PackedPart,
    PackedWriter,
    import_pyarrow,
    open_packed,
)
from synthbench.record import Record
from synthbench.record_lines import find_repeated, parse_record, raw_lines
from synthbench.run_files import BEING_WRITTEN, explained, locked
from synthbench.store import (
    RECORDS,
    names_of_records,
    read_info,
    require_no_jobs,
    without_garbage_collection,
)


class Columns(Protocol):
    """What a packed file has beside the lines: derived from records, made again at any time."""

    def schema(self) -> Mapping[str, Any]:
        """Name -> type of pyarrow."""

    def facts(self) -> Mapping[str, Any]:
        """What decides whether the columns are still what this version would make."""

    def of(self, records: Sequence[Record | None]) -> Mapping[str, Any]:
        """The values of each column; None where a line is damaged."""


class Packed(NamedTuple):
    """What packing did."""

    records: int
    damaged: int  # lines that are kept as they are
    before: int  # bytes of the files
    after: int


def pack_run(
    run_dir: Path,
    columns: Columns,
    *,
    keep: bool = False,
    observe: Callable[[int], None] = lambda lines: None,
) -> Packed:
    """Write records.parquet, compare it with the files of records, and remove them.

    A file is removed only after its lines have been read back from the packed file and were found
    equal, byte for byte. With `keep` none is removed. `observe` is told the lines done. Raises
    ResultsError where the run cannot be packed.
    """
    import_pyarrow()
    with locked(run_dir):
        read_info(run_dir)
        require_no_jobs(run_dir)
        source = open_packed(run_dir)
        names = names_of_records(run_dir, source)
        target = run_dir / PACKED
        temporary = run_dir / (PACKED + BEING_WRITTEN)
        with explained("write", run_dir):
            before = {name: _stat(run_dir / name) for name in names}
            try:
                found, parts = _write(run_dir, names, source, temporary, columns, observe)
                _sync(temporary)
                _compare(temporary, parts)
                os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            _sync(run_dir)
            for name in () if keep else names:
                path = run_dir / name
                if path.exists() and _stat(path) == before[name]:  # else it has grown: it stays
                    path.unlink()
                    _sync(path.parent)
        return found._replace(after=target.stat().st_size)


def unpack_run(run_dir: Path) -> int:
    """Write the files of records again, and remove records.parquet; how many lines it had.

    Raises ResultsError if the run is not packed, or where a file cannot be written.
    """
    with locked(run_dir):
        source = open_packed(run_dir)
        if source is None:
            raise ResultsError(f"{run_dir} is not packed: it has no {PACKED}")
        with explained("write", run_dir):
            for part in source.parts:
                path = run_dir / part.name
                temporary = path.with_name(path.name + BEING_WRITTEN)
                path.parent.mkdir(exist_ok=True)
                try:
                    with open(temporary, "wb") as file:
                        digest = hashlib.sha256()
                        for number, line in enumerate(raw_lines(run_dir, part.name, source)):
                            file.write(line.content)
                            if number < part.rows:
                                digest.update(line.content[: line.size])
                        file.flush()
                        os.fsync(file.fileno())
                    if digest.hexdigest() != part.sha256:
                        raise _differs(source.path, part)
                    os.replace(temporary, path)
                finally:
                    temporary.unlink(missing_ok=True)
                _sync(path.parent)
            rows = source.rows
            source.close()
            (run_dir / PACKED).unlink()
            _sync(run_dir)
        return rows


def _write(
    run_dir: Path,
    names: Sequence[str],
    source: PackedFile | None,
    temporary: Path,
    columns: Columns,
    observe: Callable[[int], None],
) -> tuple[Packed, list[PackedPart]]:
    records = damaged = before = done = 0
    writer = PackedWriter(temporary, columns.schema(), columns.facts())
    for name in names:
        if (run_dir / name).exists() or (source is not None and source.part(name) is not None):
            writer.begin(name)  # it may be empty, as records.jsonl is where jobs write records
        known: dict[tuple[str, int, int], int] = {}
        for lines in _batches(line.content for line in raw_lines(run_dir, name, source)):
            with without_garbage_collection():
                found = [
                    parse_record(line, run_dir / name) if _is_complete(line, name) else None
                    for line in lines
                ]
                for number, record in enumerate(found, done + 1):
                    if record is not None:
                        find_repeated(known, record, number, run_dir / name)
                made = columns.of(found)
            writer.write(name, lines, made)
            records += sum(record is not None for record in found)
            damaged += sum(
                bool(line.strip()) and record is None
                for line, record in zip(lines, found, strict=True)
            )
            before += sum(map(len, lines))
            done += len(lines)
            observe(done)
    return Packed(records, damaged, before, 0), writer.close()


def _is_complete(line: bytes, name: str) -> bool:
    """Whether a line may be a record: of a shard, not one that its job was writing when it died."""
    return bool(line.strip()) and (name == RECORDS or line.endswith(b"\n"))


def _batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(lines, ROWS_PER_GROUP)):
        yield batch


def _compare(path: Path, parts: Sequence[PackedPart]) -> None:
    """Raise ResultsError unless the packed file has the lines that it was made from."""
    written = PackedFile(path)
    try:
        for part in parts:
            digest = hashlib.sha256()
            for _, line in written.lines(part.name):
                digest.update(line)
            if digest.hexdigest() != part.sha256:
                raise _differs(path, part)
    finally:
        written.close()


def _differs(path: Path, part: PackedPart) -> ResultsError:
    return ResultsError(
        f"{path} does not have the lines of {part.name} that were written to it; check the disk. "
        "The files of records are untouched"
    )


def _stat(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written to; None without a file."""
    if not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
