"""The status of a run: the same whether it is packed, and from columns where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from synthbench.cli import main
from synthbench.recorded import Recorded, read_recorded
from synthbench.run_files import make_folder
from synthbench.run_info import JobInfo
from synthbench.store import RECORDS, SHARDS, append_record, create_run, read_run, write_job
from tests.test_store import info, record

pytest.importorskip("pyarrow", reason="needs the extra parquet: pip install -e '.[parquet]'")

from synthbench.packed import PACKED
from synthbench.packing import pack_run
from synthbench.report.data.columns import MetricColumns, PackedRecord, read_for_tables


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run whose jobs measured one cell twice: as one that was taken for dead may do."""
    path = tmp_path / "results" / "mine" / "first"
    create_run(path, info())
    append_record(path, record(0))
    append_record(path, record(0).model_copy(update={"attempt": 1, "wall_seconds": 9.0}))
    make_folder(path / SHARDS)
    for name, numbers in (("a.0001-x", (3, 4)), ("a.0002-y", (4, 5))):
        write_job(path, name, JobInfo(order="1", finished=True))
        for number in numbers:
            append_record(path, record(number), f"{SHARDS}/{name}.jsonl")
    return path


def expected(run_dir: Path) -> list[Recorded]:
    return [Recorded.of(one) for one in read_run(run_dir).records]


def fail(*_: Any) -> None:
    raise AssertionError("every record was parsed")


def test_a_packed_run_has_recorded_the_same(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = expected(run_dir)
    assert read_recorded(run_dir) == before
    assert [one.attempt for one in before] == [0, 1, 0, 0, 0] and before[1].wall_seconds == 9.0
    pack_run(run_dir, MetricColumns())
    monkeypatch.setattr("synthbench.recorded.read_run", fail)
    assert read_recorded(run_dir) == before


def test_what_was_written_since_counts(run_dir: Path) -> None:
    pack_run(run_dir, MetricColumns())
    append_record(run_dir, record(7))
    assert record(7).id in {one.id for one in read_recorded(run_dir)}
    assert read_recorded(run_dir) == expected(run_dir)


@pytest.mark.parametrize("line", [b"", b"{}", b"[1", b"\xff"])
def test_damaged_lines_are_left_out(run_dir: Path, line: bytes) -> None:
    with open(run_dir / RECORDS, "ab") as file:
        file.write(line + b"\n")
    before = expected(run_dir)
    pack_run(run_dir, MetricColumns())
    assert read_recorded(run_dir) == before == expected(run_dir)


def test_the_line_that_a_job_was_writing_when_it_died_counts_nowhere(run_dir: Path) -> None:
    """Also where only its newline is missing."""
    shard = run_dir / SHARDS / "a.0002-y.jsonl"
    shard.write_bytes(shard.read_bytes().removesuffix(b"\n"))
    before = expected(run_dir)
    assert record(5).id not in {one.id for one in before}
    pack_run(run_dir, MetricColumns())
    assert read_recorded(run_dir) == before
    assert [one.id for one in read_for_tables(run_dir).records] == [
        one.id for one in read_run(run_dir).records
    ]


def test_status_is_the_same_and_a_truncated_file_is_one_line(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("status", str(run_dir)) == 0
    before = capsys.readouterr().out
    pack_run(run_dir, MetricColumns())
    assert isinstance(read_for_tables(run_dir).records[0], PackedRecord)
    assert command("status", str(run_dir)) == 0
    assert capsys.readouterr().out == before
    content = (run_dir / PACKED).read_bytes()
    for size in (0, 3, len(content) // 2, len(content) - 1):
        (run_dir / PACKED).write_bytes(content[:size])
        assert command("status", str(run_dir)) == 2
        message = capsys.readouterr().err
        assert "cannot be read as packed records" in message and message.count("\n") == 1


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    return int(str(exit.value.code))
