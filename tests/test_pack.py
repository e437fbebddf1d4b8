"""A packed run: every record is as it was, whatever happens while it is packed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthbench import packing
from synthbench.cli import main
from synthbench.errors import ResultsError
from synthbench.record import Record
from synthbench.run_files import make_folder
from synthbench.run_info import JobInfo
from synthbench.store import (
    INFO,
    RECORDS,
    SHARDS,
    append_record,
    create_run,
    read_run,
    set_damage_aside,
    write_job,
)
from tests.page_commands import ROOT, commands_of, run_command
from tests.test_store import info, record

pytest.importorskip("pyarrow", reason="needs the extra parquet: pip install -e '.[parquet]'")

from synthbench.packed import PACKED, PackedFile
from synthbench.packing import pack_run, unpack_run
from synthbench.report.data.columns import MetricColumns, PackedRecord, read_for_tables
from synthbench.report.text.files import render

COMMITTED = Path(__file__).resolve().parents[1] / "results"
SOURCES = ("seq_scaling", "quality_synthetic", "forms", "table4")  # cost, trainings, kernels


def pack(run_dir: Path, **options: Any) -> packing.Packed:
    return pack_run(run_dir, MetricColumns(), **options)


def files_of(run_dir: Path) -> dict[str, bytes]:
    """The files of records of a run."""
    paths = [run_dir / RECORDS, *(run_dir / SHARDS).glob("*.jsonl")]
    return {str(path.relative_to(run_dir)): path.read_bytes() for path in paths if path.exists()}


def texts(records: Sequence[Record]) -> list[str]:
    return [one.model_dump_json() for one in records]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with three records of its own, and two of a job."""
    path = tmp_path / "results" / "mine" / "first"
    create_run(path, info())
    for number in range(3):
        append_record(path, record(number))
    make_folder(path / SHARDS)
    write_job(path, "a.0001-x", JobInfo(order="1", finished=True))
    for number in (3, 4):
        append_record(path, record(number), f"{SHARDS}/a.0001-x.jsonl")
    return path


def test_a_packed_run_reads_the_same_and_unpacks_to_the_same_bytes(run_dir: Path) -> None:
    before, files = read_run(run_dir), files_of(run_dir)
    assert pack(run_dir).records == 5
    assert files_of(run_dir) == {}
    assert read_run(run_dir) == before
    assert texts(read_run(run_dir, "a").records)[-2:] == texts([record(3), record(4)])
    unpack_run(run_dir)
    assert files_of(run_dir) == files and not (run_dir / PACKED).exists()
    assert read_run(run_dir) == before


@pytest.mark.long_but("table4")
@pytest.mark.parametrize("source", SOURCES)
def test_tables_of_a_packed_run_are_those_of_its_records(source: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(COMMITTED / source / "cpu-reference", run_dir)
    before = read_run(run_dir)
    expected = render(before)
    pack(run_dir)
    found = read_for_tables(run_dir)
    assert found.records and all(isinstance(one, PackedRecord) for one in found.records)
    assert render(found) == expected
    assert read_run(run_dir).records == before.records


LINES = [
    line
    for source in SOURCES
    for line in (COMMITTED / source / "cpu-reference" / RECORDS).read_text().splitlines()[:40]
]
OUTCOMES = st.sampled_from(["ok", "oom", "timeout", "crashed", "unsupported", "diverged"])
VALUES = st.dictionaries(
    st.text(max_size=8), st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=3
)


@st.composite
def record_lines(draw: st.DrawFn) -> list[bytes]:
    """Lines of different records, with fields that are missing or unusual; some are damaged."""
    found: dict[Any, bytes] = {}
    for number, line in enumerate(draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=12))):
        raw = json.loads(line)
        raw |= {"round": number, "outcome": draw(OUTCOMES), "reason": draw(st.text(max_size=20))}
        measurements = raw["measurements"]
        for name in draw(st.sets(st.sampled_from(sorted(measurements)))):
            del measurements[name]
        measurements["values"] = draw(VALUES)
        measurements["warnings"] = draw(st.lists(st.text(max_size=10), max_size=2))
        raw["attempt"] = draw(st.integers(0, 2))
        text = json.dumps(raw, ensure_ascii=draw(st.booleans()))  # NaN and Infinity as Python's
        found[number] = text.encode(errors="backslashreplace")
    damaged = st.lists(st.sampled_from([b"", b"{}", b"\xff not JSON", b"[1"]), max_size=2)
    return [*found.values(), *draw(damaged)]


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(lines=record_lines(), ends=st.sampled_from([b"", b"\n"]))
def test_every_kind_of_record_survives(
    lines: list[bytes], ends: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_dir = tmp_path_factory.mktemp("run") / "one"
    create_run(run_dir, info())
    content = b"\n".join(lines) + ends
    (run_dir / RECORDS).write_bytes(content)
    before = read_run(run_dir)
    pack(run_dir)
    after = read_run(run_dir)
    assert texts(after.records) == texts(before.records)
    assert [one.content for one in after.damaged] == [one.content for one in before.damaged]
    of_tables = read_for_tables(run_dir).records
    assert [one.key for one in of_tables] == [one.key for one in before.records]
    assert [one.warnings for one in of_tables] == [one.warnings for one in before.records]
    unpack_run(run_dir)
    assert (run_dir / RECORDS).read_bytes() == content


def test_a_packed_run_is_continued_and_packed_again(run_dir: Path) -> None:
    pack(run_dir)
    append_record(run_dir, record(7))
    numbers = [0, 1, 2, 7, 3, 4]
    assert texts(read_run(run_dir).records) == texts([record(n) for n in numbers])
    assert all(isinstance(one, Record) for one in read_for_tables(run_dir).records)
    assert pack(run_dir).records == 6
    assert files_of(run_dir) == {}
    assert texts(read_run(run_dir).records) == texts([record(n) for n in numbers])
    unpack_run(run_dir)
    assert len((run_dir / RECORDS).read_bytes().splitlines()) == 4
    assert texts(read_run(run_dir).records) == texts([record(n) for n in numbers])


def test_a_file_without_lines_is_written_again(run_dir: Path) -> None:
    """As records.jsonl of a run whose jobs write the records; also after a second pack."""
    (run_dir / RECORDS).write_bytes(b"")
    before, files = read_run(run_dir), files_of(run_dir)
    for _ in range(2):
        assert pack(run_dir).records == 2
        assert files_of(run_dir) == {} and read_run(run_dir) == before
    unpack_run(run_dir)
    assert files_of(run_dir) == files and read_run(run_dir) == before


def test_unpack_joins_what_was_written_since(run_dir: Path) -> None:
    """Also where the packed lines end in the middle of one."""
    with open(run_dir / RECORDS, "ab") as file:
        file.write(b'{"half": ')
    pack(run_dir)
    append_record(run_dir, record(7))
    before = read_run(run_dir)
    assert len(before.records) == 6 and [one.file for one in before.damaged] == [PACKED]
    assert set_damage_aside(before).damaged == before.damaged
    unpack_run(run_dir)
    assert texts(read_run(run_dir).records) == texts(before.records)


@pytest.mark.parametrize("keep", [True, False])
def test_records_beside_the_same_packed_ones_count_once(run_dir: Path, keep: bool) -> None:
    """As with --keep, and after a pack that was killed before it removed them."""
    files, before = files_of(run_dir), texts(read_run(run_dir).records)
    pack(run_dir, keep=keep)
    if keep:
        assert files_of(run_dir) == files
    else:
        (run_dir / RECORDS).write_bytes(files[RECORDS])
    assert texts(read_run(run_dir).records) == before
    append_record(run_dir, record(8))
    assert len(read_run(run_dir).records) == 6
    assert pack(run_dir).records == 6
    assert files_of(run_dir) == {} and len(read_run(run_dir).records) == 6


def test_records_count_once_where_half_a_line_was_moved_aside(run_dir: Path) -> None:
    """After pack --keep of a killed run, its file no longer begins with what is packed of it."""
    with open(run_dir / RECORDS, "ab") as file:
        file.write(b'{"half": ')
    pack(run_dir, keep=True)
    with open(run_dir / RECORDS, "ab") as file:  # as when the run goes on
        file.write(b"\n")
    append_record(run_dir, record(7))
    whole = texts(read_run(run_dir).records)
    assert len(whole) == 6
    lines = (run_dir / RECORDS).read_bytes().splitlines(keepends=True)
    (run_dir / RECORDS).write_bytes(b"".join(line for line in lines if b"half" not in line))
    assert texts(read_run(run_dir).records) == whole
    shutil.copytree(run_dir, run_dir.with_name("copy"))
    assert pack(run_dir.with_name("copy")).records == 6
    unpack_run(run_dir)
    assert texts(read_run(run_dir).records) == whole


@pytest.mark.parametrize("name", ["cuda:0", "s3:x", "file:x", "bad\udcff"])
def test_a_folder_may_be_called_anything(
    name: str, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow takes a relative path with a colon for an address."""
    monkeypatch.chdir(run_dir.parent)
    run_dir.rename(run_dir.with_name(name))
    before = texts(read_run(Path(name)).records)
    pack(Path(name))
    assert texts(read_run(Path(name)).records) == before
    unpack_run(Path(name))
    assert texts(read_run(Path(name)).records) == before


@pytest.mark.parametrize("step", ["_compare", "_sync", "_write"])
def test_a_pack_that_fails_loses_nothing(
    run_dir: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(run_dir)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packing, step, fail)
    with pytest.raises(ResultsError, match="No space left"):
        pack(run_dir)
    assert files_of(run_dir) == files
    assert sorted(path.name for path in run_dir.iterdir()) == [RECORDS, INFO, SHARDS]


def test_what_was_written_wrongly_is_not_kept(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, written = files_of(run_dir), PackedFile.lines

    def changed(self: PackedFile, name: str) -> Any:
        return ((n, line.replace(b"torch", b"jaxxx")) for n, line in written(self, name))

    monkeypatch.setattr(PackedFile, "lines", changed)
    with pytest.raises(ResultsError, match=r"does not have the lines of records\.jsonl"):
        pack(run_dir)
    assert files_of(run_dir) == files and not (run_dir / PACKED).exists()


def test_a_file_that_grows_while_it_is_packed_stays(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = f"{SHARDS}/a.0001-x.jsonl"
    compare = packing._compare

    def late(path: Path, parts: Any) -> None:
        append_record(run_dir, record(5), shard)
        compare(path, parts)

    monkeypatch.setattr(packing, "_compare", late)
    pack(run_dir)
    assert list(files_of(run_dir)) == [shard]
    assert texts(read_run(run_dir).records) == texts([record(n) for n in range(6)])


def test_a_run_whose_jobs_still_write_is_refused(run_dir: Path) -> None:
    write_job(run_dir, "b.0001-y", JobInfo(order="1"))
    with pytest.raises(ResultsError, match=r"not finished, and job b.0001-y may still write"):
        pack(run_dir)


def test_a_measurement_that_is_there_twice_is_refused(run_dir: Path) -> None:
    append_record(run_dir, record(0))
    with pytest.raises(ResultsError, match="lines 1 and 4 are both round 0"):
        pack(run_dir)


def test_columns_of_other_code_are_not_trusted(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(run_dir)
    assert isinstance(read_for_tables(run_dir).records[0], PackedRecord)
    monkeypatch.setattr("synthbench.report.data.columns.fingerprint", lambda: "changed")
    assert texts(read_for_tables(run_dir).records) == texts([record(n) for n in range(5)])


def test_a_damaged_packed_file_is_one_line(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack(run_dir)
    content = (run_dir / PACKED).read_bytes()
    for wrong in (b"", b"not Parquet", content[:-100], content[: len(content) // 2]):
        (run_dir / PACKED).write_bytes(wrong)
        assert _command("tables", str(run_dir)) == 2
        message = capsys.readouterr().err
        assert "cannot be read as packed records" in message and message.count("\n") == 1


def test_the_commands(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command("pack", str(run_dir)) == 0
    assert "5 records in " in capsys.readouterr().out
    assert _command("status", str(run_dir)) == 0
    assert _command("unpack", str(run_dir)) == 0
    assert "5 lines unpacked" in capsys.readouterr().out
    assert _command("unpack", str(run_dir)) == 2
    assert "is not packed: it has no records.parquet" in capsys.readouterr().err


def test_without_pyarrow_one_line_says_what_to_install(
    run_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(run_dir)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    for command in ("pack", "unpack", "tables"):
        assert _command(command, str(run_dir)) == 2
        message = capsys.readouterr().err
        assert "pip install 'synthbench[parquet]'" in message and message.count("\n") == 1


def _command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    return int(str(exit.value.code))


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """They pack a committed run, make its tables and write its records again, byte for byte."""
    name = Path("results", "table1", "cpu-reference")
    shutil.copytree(ROOT / name, tmp_path / name)
    before = (tmp_path / name / RECORDS).read_bytes()
    pack, tables, unpack = commands_of("Very large runs")
    run_command(pack, tmp_path)
    assert not (tmp_path / name / RECORDS).exists()
    shown = run_command(tables, tmp_path)
    assert shown.startswith("table1 on cpu")
    run_command(unpack, tmp_path)
    assert (tmp_path / name / RECORDS).read_bytes() == before
