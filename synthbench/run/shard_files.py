"""The files of one job of a shard, and how another process follows what jobs write."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from synthbench.record import Record
from synthbench.record_lines import parse_record
from synthbench.run_files import make_folder, read_bytes
from synthbench.run_info import JobInfo, Machine
from synthbench.store import SHARDS, append_record, read_info, read_jobs, shard_records, write_job


class ShardWriter:
    """A sink with files of its own: no other job ever writes to them, whatever becomes of this one.

    Their name is the shard's, a number above those of earlier jobs of the shard, and a random part:
    two jobs that do not see each other's files may choose the same number.
    """

    def __init__(self, run_dir: Path, shard: str, order: str) -> None:
        make_folder(run_dir / SHARDS)
        numbers = [int(name.split(".")[1].partition("-")[0]) for name in read_jobs(run_dir, shard)]
        self.name = f"{shard}.{max(numbers, default=0) + 1:04d}-{uuid.uuid4().hex[:8]}"
        self.run_dir = run_dir
        self.job = JobInfo(order=order)
        self.update()

    def update(self, **changes: object) -> None:
        """Write what this job says of itself."""
        self.job = self.job.model_copy(update=changes)
        write_job(self.run_dir, self.name, self.job)

    def store(self, record: Record) -> None:
        append_record(self.run_dir, record, f"{SHARDS}/{self.name}.jsonl")

    def add_machine(self, machine: Machine) -> None:
        self.update(machine=machine)

    def machines(self) -> list[Machine]:
        return read_info(self.run_dir).machines


class Follower:
    """Reads what jobs add to a run's folder: each record once, however many jobs wrote it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._read: dict[Path, int] = {}  # bytes of each file that were read
        self._known: set[tuple[str, int, int]] = set()

    def new_records(self) -> Iterator[Record]:
        """The records since the last call; a line that is still being written comes with the next.

        Raises ResultsError where a file cannot be read.
        """
        for path in shard_records(self.run_dir):
            begin = self._read.get(path, 0)
            if os.path.getsize(path) <= begin:
                continue
            content = read_bytes(path, begin)
            lines = content[: content.rfind(b"\n") + 1]
            self._read[path] = begin + len(lines)
            for line in lines.splitlines():
                record = parse_record(line, path)
                if record is not None and record.key not in self._known:
                    self._known.add(record.key)
                    yield record
