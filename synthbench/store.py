"""Runs on disk: `results/<suite>/<run>/run.json` and `records.jsonl`.

A run that several jobs measure has a folder `shards/` too: a file of records and a file of facts
per job, which no other job writes. So nothing needs a lock, also where file systems have none.

`synthbench pack` moves all of these records into one file, `records.parquet`; what is measured
later is written beside it. A run is always the union of both.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError

from synthbench.errors import ResultsError, quote
from synthbench.packed import PACKED, PackedFile, open_packed
from synthbench.record import Record
from synthbench.record_lines import (
    Damage,
    find_repeated,
    first_problem,
    raw_lines,
    record_of,
    require_known_schema,
)
from synthbench.run_files import (
    BEING_WRITTEN,
    append_line,
    at_once,
    content_if_any,
    content_of,
    explained,
    locked,
    replace_file,
)
from synthbench.run_info import JobInfo, RunInfo, merged_machines

INFO = "run.json"
RECORDS = "records.jsonl"
DAMAGED = "records.damaged.jsonl"
SHARDS = "shards"


@dataclass(frozen=True)
class Run:
    """A run read back: its information, its records in order, and the lines that are damaged."""

    path: Path
    info: RunInfo
    records: Sequence[Record]
    damaged: list[Damage]

    @property
    def full_path(self) -> Path:
        """`path` from the root on: a relative one, as `.`, may lack the name of the run."""
        return Path(os.path.abspath(self.path))


def create_run(run_dir: Path, info: RunInfo) -> None:
    """Make a run's folder with its run.json and no records; raises ResultsError if that fails."""
    require_new(run_dir)
    with explained("create", run_dir):
        run_dir.mkdir(parents=True, exist_ok=True)
    with locked(run_dir):
        require_new(run_dir)  # again: another process may have been faster
        write_info(run_dir, info)  # first, so that a run that is killed from here on can be resumed
        with explained("create", run_dir):
            (run_dir / RECORDS).touch()


def has_begun(run_dir: Path) -> bool:
    """Whether a folder holds a run that can be continued."""
    with explained("read", run_dir):
        return any((run_dir / name).exists() for name in (INFO, RECORDS, PACKED))


def require_new(run_dir: Path) -> None:
    """Raise ResultsError if the folder holds anything but an incomplete run.json."""
    with explained("read", run_dir):
        held = {path.name for path in run_dir.iterdir()} if run_dir.is_dir() else set()
        if held - {INFO + BEING_WRITTEN}:
            advice = (
                "; continue that run with --resume, or give another --out"
                if held & {INFO, RECORDS}
                else " and is not a run; give another --out"
            )
            raise ResultsError(f"{run_dir} is not empty{advice}")


def write_info(run_dir: Path, info: RunInfo) -> None:
    """Write run.json atomically: a reader finds the old one or the new one."""
    content = json.dumps(info.model_dump(mode="json"), indent=2) + "\n"
    replace_file(run_dir / INFO, content.encode())


def append_record(run_dir: Path, record: Record, file: str = RECORDS) -> None:
    """Add one line to records.jsonl, or to another file; it is on disk when this returns."""
    append_line(run_dir / file, record.model_dump_json())


def write_job(run_dir: Path, name: str, job: JobInfo) -> None:
    """Write what a job says of itself, atomically."""
    replace_file(run_dir / SHARDS / f"{name}.json", job.model_dump_json().encode())


def read_jobs(run_dir: Path, shard: str = "*") -> dict[str, JobInfo]:
    """What jobs say of themselves, those of one shard or all: name of the job's files -> facts.

    Raises ResultsError where one cannot be read.
    """
    found: dict[str, JobInfo] = {}
    for path in _shard_files(run_dir, shard, ".json"):
        try:
            found[path.stem] = JobInfo.model_validate_json(content_of(path))
        except ValidationError as error:
            raise ResultsError(
                f"{path} cannot be read as the facts of a job: {first_problem(error)}; restore it "
                "from a copy, or remove it: the records beside it stay readable"
            ) from error
    return found


def shard_records(run_dir: Path, shard: str = "*") -> list[Path]:
    """The files of records that jobs wrote, of one shard or all; of each shard in their order."""
    return _shard_files(run_dir, shard, ".jsonl")


def _shard_files(run_dir: Path, shard: str, suffix: str) -> list[Path]:
    folder = run_dir / SHARDS
    with explained("read", folder):
        if not folder.is_dir():
            return []
        os.scandir(folder).close()  # glob takes a folder that may not be read for an empty one
        return sorted(folder.glob(f"{shard}.*{suffix}"))


def read_run(run_dir: Path, shard: str = "*") -> Run:
    """Read a run; damaged lines are listed, never raised.

    Where jobs wrote the same measurement twice, as one that was taken for dead and its successor
    may do, the later job's counts. `shard`: of what jobs wrote, only the records of this shard.
    Raises ResultsError if it is not a run, has another schema, or a file holds the same measurement
    twice.
    """
    info = read_info(run_dir)
    found: dict[tuple[str, int, int], Record] = {}
    damaged: list[Damage] = []
    with without_garbage_collection(), _packed(run_dir) as packed:
        for name in names_of_records(run_dir, packed, shard):
            records, damages = _read_records_of(run_dir, name, packed)
            found |= records
            damaged += damages
    return Run(run_dir, info, list(found.values()), damaged)


@contextlib.contextmanager
def _packed(run_dir: Path) -> Iterator[PackedFile | None]:
    """The packed file of a run, if it has one."""
    with explained("read", run_dir):
        packed = open_packed(run_dir)
    try:
        yield packed
    finally:
        if packed is not None:
            packed.close()


def names_of_records(run_dir: Path, packed: PackedFile | None, shard: str = "*") -> list[str]:
    """The files of records of a run, packed or not, in the order in which they count.

    `shard`: of what jobs wrote, only the files of this shard.
    """
    names = {path.relative_to(run_dir).as_posix() for path in shard_records(run_dir, shard)}
    wanted = f"{SHARDS}/{shard}.*"
    if packed is not None:
        names |= {part.name for part in packed.parts if fnmatch(part.name, wanted)}
    return [RECORDS, *sorted(names)]


def _read_records_of(
    run_dir: Path, name: str, packed: PackedFile | None
) -> tuple[dict[tuple[str, int, int], Record], list[Damage]]:
    """The records of a file by key, and its damaged lines."""
    path = run_dir / name
    records: dict[tuple[str, int, int], Record] = {}
    damaged: list[Damage] = []
    numbers: dict[tuple[str, int, int], int] = {}
    for position, (content, number, _, is_packed) in enumerate(
        raw_lines(run_dir, name, packed), start=1
    ):
        line = content.removesuffix(b"\n")
        if not line.strip():
            continue
        if name != RECORDS and line == content:
            continue  # of a shard, what its job is writing now, or was when it was killed
        record = record_of(line, number, path, PACKED if is_packed else name)
        if isinstance(record, Damage):
            damaged.append(record)
            continue
        if packed is not None and not is_packed and records.get(record.key) == record:
            continue  # left by a `pack` that could not remove it
        find_repeated(numbers, record, position, path)
        records[record.key] = record
    return records, damaged


def require_no_jobs(run_dir: Path) -> None:
    """Raise ResultsError if jobs may still write records of this run."""
    info = _read_info_of_runner(run_dir)
    jobs = read_jobs(run_dir)
    working = [name for name, job in jobs.items() if not job.finished and not job.refused]
    if info.finished is None and working:
        raise ResultsError(
            f"{run_dir} is not finished, and job {working[0]} may still write to it; wait for it, "
            "or finish the run with `synthbench run --resume`"
        )


def read_info(run_dir: Path) -> RunInfo:
    """Read run.json, with the machines of jobs; raises ResultsError if that cannot be read."""
    info = _read_info_of_runner(run_dir)
    measured = [job.machine for job in read_jobs(run_dir).values() if job.machine is not None]
    if not measured:
        return info
    return info.model_copy(update={"machines": merged_machines([*info.machines, *measured])})


def _read_info_of_runner(run_dir: Path) -> RunInfo:
    path = run_dir / INFO
    with explained("read", path):
        is_folder, exists = run_dir.is_dir(), path.exists()
    if not is_folder:
        raise ResultsError(
            f"folder {run_dir} does not exist; `synthbench list runs` shows the runs"
        )
    if not exists:
        raise ResultsError(
            f"{run_dir} is not a run: it has no {INFO}; `synthbench list runs` shows the runs"
        )
    content = content_of(path)
    try:
        raw = json.loads(content)
        require_known_schema(raw, path)
        if not isinstance(raw, dict):
            raise ValueError(f"it holds {quote(raw)} instead of an object")
        return RunInfo.model_validate(raw)
    except (ValueError, RecursionError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise ResultsError(
            f"{path} cannot be read as a run's information: {problem}. The records beside it "
            f"are untouched; restore {INFO} from a copy, or start a new run with another --out"
        ) from error


def set_damage_aside(run: Run) -> Run:
    """Move damaged lines to records.damaged.jsonl, so that records.jsonl can be continued.

    Those of the files in shards/ stay there: these files are never continued.
    """
    content = content_if_any(run.path / RECORDS)
    damaged = [damage for damage in run.damaged if damage.file == RECORDS]
    if not damaged and (not content or content.endswith(b"\n")):
        return run
    with explained("write", run.path), open(run.path / DAMAGED, "ab", opener=at_once) as aside:
        aside.writelines(damage.content + b"\n" for damage in damaged)
        aside.flush()
        os.fsync(aside.fileno())
    lost = {damage.line for damage in damaged}
    kept = [
        line + b"\n"
        for number, line in enumerate(content.split(b"\n"), start=1)
        if number not in lost and line.strip()
    ]
    replace_file(run.path / RECORDS, b"".join(kept))
    return replace(run, damaged=[damage for damage in run.damaged if damage.file != RECORDS])


def read_records(path: str | Path) -> list[Record]:
    """The records of a run's folder, or of every run below a folder."""
    path = Path(path)
    with explained("read", path):
        is_above = path.is_dir() and not (path / INFO).is_file()
    if is_above:
        runs = list_runs(path)
        if not runs:
            raise ResultsError(f"{path} contains no run: no folder with a {INFO}")
        return [record for run in runs for record in read_run(run).records]
    return list(read_run(path).records)


def list_runs(results_dir: str | Path) -> list[Path]:
    """The folders of all runs below a folder, by path; empty if the folder does not exist.

    Raises ResultsError if the folder may not be read.
    """
    folder = Path(results_dir)
    with explained("read", folder):
        if not folder.is_dir():
            return []
        os.scandir(folder).close()  # glob takes a folder that may not be read for an empty one
        return sorted(_folders_of_runs(folder))


def _folders_of_runs(folder: Path) -> Iterator[Path]:
    """The folders with a run, each once; links to folders are followed."""
    seen: set[str] = set()
    for place, names, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link to where it is, or to another part
            names.clear()
            continue
        seen.add(real)
        names.sort()
        if INFO in files:
            yield Path(place)


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """While many objects are made that all stay, looking for garbage takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # nobody else has frozen objects, which would be thawed
            # What was made joins the oldest objects at once; else all of it would be looked at now.
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()
