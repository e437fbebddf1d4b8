"""`records.parquet`: the lines of a run's files of records, packed, with columns made from them.

The column `line` has the lines as they were, byte for byte; the other columns are derived. So the
files can be written again exactly, and records are read from the same text as before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from synthbench.errors import PackageMissingError, ResultsError

PACKED = "records.parquet"
FILE, LINE = "file", "line"  # the columns that every packed file has
ROWS_PER_GROUP = 10_000  # that are in memory at a time
FACTS = b"synthbench"  # where the metadata of the Parquet file has ours
NEEDS_PYARROW = (
    "a packed run needs pyarrow, which is not installed: pip install 'synthbench[parquet]'"
)


@dataclass(frozen=True)
class PackedPart:
    """One file of records inside a packed file."""

    name: str  # in the run's folder
    rows: int
    bytes: int
    sha256: str


class PackedFile:
    """A packed file that is read by groups of rows, and columns one at a time.

    Raises ResultsError where it cannot be read, PackageMissingError without pyarrow.
    """

    def __init__(self, path: Path) -> None:
        import_pyarrow()
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            # Open files: pyarrow takes a path like cuda:0/records.parquet for an address.
            self._file = pq.ParquetFile(pa.OSFile(os.fsencode(path), "rb"))
            facts = json.loads((self._file.metadata.metadata or {})[FACTS])
            self.parts = [PackedPart(**part) for part in facts["parts"]]
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise damaged(path, error) from error
        self.facts: Mapping[str, Any] = facts
        self._group = -1, list[bytes]()  # the last group whose lines were read

    @cached_property
    def columns(self) -> set[str]:
        """The names of its columns."""
        return set(self._file.schema_arrow.names)

    @property
    def rows(self) -> int:
        """How many lines it has."""
        return int(self._file.metadata.num_rows)

    def part(self, name: str) -> PackedPart | None:
        """What it has of a file; None for nothing."""
        return next((part for part in self.parts if part.name == name), None)

    def lines(self, name: str) -> Iterator[tuple[int, bytes]]:
        """The lines of a file, each with its number among all rows, from 1."""
        begin = 0
        for part in self.parts:
            if part.name == name:
                yield from self._lines(begin, begin + part.rows)
            begin += part.rows

    def line(self, row: int) -> bytes:
        """The line of a row, from 0; fast where the one before was near."""
        return next(self._lines(row, row + 1))[1]

    @property
    def groups(self) -> int:
        """How many groups of rows it has."""
        return int(self._file.num_row_groups)

    def _lines(self, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        start = 0
        for group in range(self._file.num_row_groups):
            stop = start + self._file.metadata.row_group(group).num_rows
            if start < end and stop > begin:
                if self._group[0] != group:
                    self._group = group, self.read([LINE], group).column(0).to_pylist()
                first, last = max(begin, start), min(end, stop)
                lines = self._group[1]
                yield from enumerate(lines[first - start : last - start], first + 1)
            start = stop

    def read(self, columns: Sequence[str], group: int | None = None) -> Any:
        """Some columns of a group of rows, or of all, as a table of pyarrow."""
        import pyarrow as pa

        try:
            if group is None:
                return self._file.read(list(columns))
            return self._file.read_row_group(group, list(columns))
        except (pa.ArrowException, OSError) as error:
            raise damaged(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)


def import_pyarrow() -> None:
    """Raise PackageMissingError unless pyarrow can be imported."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise PackageMissingError(NEEDS_PYARROW) from error


def damaged(path: Path, error: Exception) -> ResultsError:
    """What a person is told of a packed file that cannot be read."""
    problem = str(error).partition("\n")[0] or type(error).__name__
    return ResultsError(
        f"{path} cannot be read as packed records: {problem}; restore it from a copy"
    )


def open_packed(run_dir: Path) -> PackedFile | None:
    """The packed file of a run; None if it has none."""
    path = run_dir / PACKED
    return PackedFile(path) if path.exists() else None


def begins_with(path: Path, part: PackedPart) -> bool:
    """Whether a file begins with what was packed of it, as after a `pack` that was killed."""
    if not path.is_file() or path.stat().st_size < part.bytes:
        return False
    digest, left = hashlib.sha256(), part.bytes
    with open(path, "rb") as file:
        while left and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
    return digest.hexdigest() == part.sha256


class PackedWriter:
    """Writes a packed file, group by group; the parts must come one after the other.

    `schema`: name -> type of pyarrow, of the columns beside FILE and LINE.
    """

    def __init__(self, path: Path, schema: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._facts = dict(facts)
        self._parts: dict[str, tuple[int, int, Any]] = {}
        self._pending: list[Any] = []  # tables that make a group together
        texts = pa.dictionary(pa.int32(), pa.string())
        fields = {FILE: texts, LINE: pa.large_binary(), **schema}
        self._schema = pa.schema(list(fields.items()))
        self._sink = pa.OSFile(os.fsencode(path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            use_dictionary=[name for name, kind in fields.items() if pa.types.is_dictionary(kind)],
            write_statistics=[name for name in fields if name != LINE],
        )

    def begin(self, name: str) -> None:
        """Add a file, so far without lines."""
        self._parts.setdefault(name, (0, 0, hashlib.sha256()))

    def write(self, name: str, lines: Sequence[bytes], columns: Mapping[str, Any]) -> None:
        """Add lines of a file, with their newlines, and what the other columns say of each."""
        import pyarrow as pa

        self.begin(name)
        rows, size, digest = self._parts[name]
        for line in lines:
            digest.update(line)
        self._parts[name] = rows + len(lines), size + sum(map(len, lines)), digest
        values = {FILE: [name] * len(lines), LINE: list(lines), **columns}
        arrays = [pa.array(values[field.name], field.type) for field in self._schema]
        self._pending.append(pa.Table.from_arrays(arrays, schema=self._schema))
        if sum(table.num_rows for table in self._pending) >= ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._pending:
            table = pa.concat_tables(self._pending).unify_dictionaries()
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending = []

    def close(self) -> list[PackedPart]:
        """Complete the file; what it has."""
        self._flush()
        parts = [
            PackedPart(name, rows, size, digest.hexdigest())
            for name, (rows, size, digest) in self._parts.items()
        ]
        facts = {**self._facts, "parts": [asdict(part) for part in parts]}
        self._writer.add_key_value_metadata({FACTS: json.dumps(facts).encode()})
        self._writer.close()
        self._sink.close()
        return parts
